package devenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startAPIServer starts a kube-apiserver on the etcd and returns it with what its
// clients need.
func startAPIServer(ctx context.Context, path, etcd string, dir *folder, args []string) (*process, *Kubernetes, error) {
	token := rand.Text()
	if err := os.WriteFile(dir.join("tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, nil, fmt.Errorf("write the token of kube-apiserver: %w", err)
	}
	if _, err := writeKey(dir.join("service-account.key")); err != nil {
		return nil, nil, fmt.Errorf("write the service accounts' key: %w", err)
	}
	if err := writeCertificate(dir.join("tls.crt"), dir.join("tls.key")); err != nil {
		return nil, nil, fmt.Errorf("write the certificate of kube-apiserver: %w", err)
	}
	var err error
	for range startAttempts {
		var p *process
		var k *Kubernetes
		if p, k, err = runAPIServer(ctx, path, etcd, token, dir, args); err == nil {
			return p, k, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, nil, err
}

func runAPIServer(ctx context.Context, path, etcd, token string, dir *folder, args []string) (*process, *Kubernetes, error) {
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	server := command{
		name: "kube-apiserver",
		path: path,
		dir:  dir.path,
		args: append([]string{
			"--etcd-servers=" + etcd,
			"--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + dir.join("tls.crt"),
			"--tls-private-key-file=" + dir.join("tls.key"),
			"--token-auth-file=" + dir.join("tokens.csv"),
			"--authorization-mode=RBAC",
			// No controller makes the accounts that it would ask for.
			"--disable-admission-plugins=ServiceAccount",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + dir.join("service-account.key"),
			"--service-account-signing-key-file=" + dir.join("service-account.key"),
			"--service-cluster-ip-range=10.0.0.0/24",
			// An endpoint may not be a loopback address, and nobody uses it.
			"--endpoint-reconciler-type=none",
			"--allow-privileged=true",
			"--profiling=false",
		}, args...),
	}
	k, err := writeKubeconfig(dir, port, token)
	if err != nil {
		return nil, nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	p, err := server.start(dir.join("kube-apiserver.log"))
	if err != nil {
		return nil, nil, err
	}
	if err := waitReady(ctx, p, 50*time.Millisecond, k.ready); err != nil {
		return nil, nil, errors.Join(err, p.end())
	}
	return p, k, nil
}

// writeKubeconfig writes a kubeconfig that trusts the API server's certificate and
// nothing else.
func writeKubeconfig(dir *folder, port int, token string) (*Kubernetes, error) {
	certificate, err := os.ReadFile(dir.join("tls.crt"))
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["berth"] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
		CertificateAuthorityData: certificate,
	}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["berth"] = &clientcmdapi.Context{Cluster: "berth", AuthInfo: "admin"}
	config.CurrentContext = "berth"
	path := dir.join("kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, err
	}
	return readKubeconfig(path)
}
