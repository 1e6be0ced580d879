# The demo's Kubernetes API server: a static binary, put into the build context by deploy/images.sh demo.
FROM scratch
COPY kube-apiserver /kube-apiserver
ENTRYPOINT ["/kube-apiserver"]
