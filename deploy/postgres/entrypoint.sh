#!/bin/sh
# Entry point of the stand-in for the official image postgres:18; busybox's sh runs it.
#
# It keeps that image's contract as far as Berth's compose file and tests lean on it:
#   POSTGRES_PASSWORD     required on the first start
#   POSTGRES_USER         the superuser; default postgres
#   POSTGRES_DB           made on the first start; default: the user's name
#   POSTGRES_INITDB_ARGS  more arguments for initdb
#   PGDATA                the cluster; default /var/lib/postgresql/18/docker
# Arguments that begin with a dash go to postgres; any other command is run instead of it.
# As there, a first start that is killed half-way leaves a volume to be thrown away.
set -eu

die() {
  echo "entrypoint: $*" >&2
  exit 1
}

# initdb and postgres refuse to run as root.
become_postgres() {
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA"
  chown -R postgres:postgres /var/lib/postgresql "$PGDATA"
  # Without the two dashes su would take postgres's own options for its own.
  exec su -s /bin/sh -- postgres "$0" "$@"
}

initialise() {
  passwords=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" >"$passwords"
  # shellcheck disable=SC2086 # POSTGRES_INITDB_ARGS is a list of words
  initdb --username="$POSTGRES_USER" --pwfile="$passwords" \
    --encoding=UTF8 --auth-local=trust --auth-host=scram-sha-256 ${POSTGRES_INITDB_ARGS:-}
  rm -f "$passwords"
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
}

# A server that only this container's socket reaches: no client sees the cluster before its database is there.
# It writes the first of the two "ready to accept connections" that wait strategies count.
create_database() {
  pg_ctl --options="-c listen_addresses=''" --wait --silent start
  if [ "$POSTGRES_DB" != postgres ]; then
    echo 'CREATE DATABASE :"name"' | psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1 \
      --set=name="$POSTGRES_DB" --username="$POSTGRES_USER" --dbname=postgres
  fi
  pg_ctl --mode=fast --wait --silent stop
}

main() {
  case "${1:-}" in
    '' | -*) set -- postgres "$@" ;;
  esac
  [ "$1" = postgres ] || exec "$@"
  [ "$(id -u)" -ne 0 ] || become_postgres "$@"
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    [ -n "${POSTGRES_PASSWORD:-}" ] || die "POSTGRES_PASSWORD is not set"
    POSTGRES_USER=${POSTGRES_USER:-postgres}
    POSTGRES_DB=${POSTGRES_DB:-$POSTGRES_USER}
    initialise
    create_database
  fi
  # The cluster knows the superuser's password now; no backend needs it in its environment.
  unset POSTGRES_PASSWORD
  exec "$@"
}

main "$@"
