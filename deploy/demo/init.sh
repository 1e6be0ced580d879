#!/usr/bin/env bash
# Makes what the demo's API server starts with, and how to reach it:
#
#   apiserver.crt, apiserver.key    valid for kube-apiserver (in the compose network), localhost and 127.0.0.1
#   service-accounts.key            signs service accounts' tokens
#   tokens.csv                      one user, berth-demo, who may do everything
#   kubeconfig                      for the worker, inside the compose network
#   kubeconfig-host                 for programs on this machine, at the published port
#
#   deploy/demo/init.sh             into BERTH_DEMO_STATE; default .dev/demo
#
# Keys and token are kept where they exist, as a running API server has read them; the kubeconfigs are written anew,
# for BERTH_DEMO_API_PORT (default 6443).
#
# They open a throw-away cluster that listens on loopback alone: the kubeconfigs are readable by all, as the worker
# runs as another user than the one who started this.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly state="${BERTH_DEMO_STATE:-$root/.dev/demo}"
readonly port="${BERTH_DEMO_API_PORT:-6443}"

die() { printf 'init.sh: %s\n' "$*" >&2; exit 1; }

# Its own authority: clients trust this one certificate and nothing else.
certificate() {
  [[ ! -s apiserver.crt ]] || return 0
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 365 -subj /CN=berth-demo \
    -addext subjectAltName=DNS:kube-apiserver,DNS:localhost,IP:127.0.0.1 \
    -addext extendedKeyUsage=serverAuth -keyout apiserver.key -out apiserver.crt 2>/dev/null
}

service_accounts() {
  [[ -s service-accounts.key ]] || openssl ecparam -name prime256v1 -genkey -noout -out service-accounts.key
}

token() {
  [[ -s tokens.csv ]] || printf '%s,berth-demo,berth-demo,"system:masters"\n' "$(openssl rand -hex 32)" >tokens.csv
}

write_kubeconfig() {
  cat <<YAML
apiVersion: v1
kind: Config
current-context: berth-demo
clusters:
  - name: berth-demo
    cluster:
      server: $1
      certificate-authority-data: $(base64 <apiserver.crt | tr -d '\n')
contexts:
  - name: berth-demo
    context: {cluster: berth-demo, user: berth-demo}
users:
  - name: berth-demo
    user: {token: $(cut -d, -f1 tokens.csv)}
YAML
}

main() {
  command -v openssl >/dev/null || die "needs openssl"
  mkdir -p "$state"
  chmod 755 "$state"
  cd "$state"
  (umask 077 && certificate && service_accounts && token)
  write_kubeconfig https://kube-apiserver:6443 >kubeconfig
  write_kubeconfig "https://127.0.0.1:$port" >kubeconfig-host
  chmod 644 kubeconfig kubeconfig-host
}

main
