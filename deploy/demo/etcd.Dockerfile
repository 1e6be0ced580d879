# etcd for the demo's API server: a static binary, put into the build context by deploy/images.sh demo.
FROM scratch
COPY etcd /etcd
VOLUME /var/lib/etcd
ENTRYPOINT ["/etcd", "--data-dir=/var/lib/etcd"]
