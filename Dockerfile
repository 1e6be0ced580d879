# Berth's image: the static binary and certificates, nothing else. One stage, as no base image can be assumed to be
# pullable; `make image` (deploy/images.sh berth) builds the binary and lays out the build context bin/image.
FROM scratch

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Berth" \
      org.opencontainers.image.description="Kubernetes backups that queue: concurrent where they may be, in order where they must" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"

COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# The archives of file stores. A fresh named volume takes its owner from here.
COPY --chown=65532:65532 data /data
COPY berth /berth

ENV BERTH_DATA=/data
VOLUME /data
EXPOSE 8080
# A number, not a name: there is no /etc/passwd, and Kubernetes' runAsNonRoot wants a number.
USER 65532:65532
ENTRYPOINT ["/berth"]
