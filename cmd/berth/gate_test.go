package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// gate is a way to the API server with a barrier on it.
type gate struct {
	*barrier
	url string
	// kubeconfig leads through the gate, as the user whose config it was given.
	kubeconfig string
}

func newGate(t *testing.T, config *rest.Config) *gate {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{barrier: &barrier{server: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch tells of each change at once
		ErrorLog:      log.New(io.Discard, "", 0),
	}}}
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	g.url, g.kubeconfig = server.URL, kubeconfigOf(t, server.URL)
	return g
}

// kubeconfigOf makes a kubeconfig for an API server that asks for nothing.
func kubeconfigOf(t *testing.T, url string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: gate, cluster: {server: %q}}]
contexts: [{name: gate, context: {cluster: gate}}]
current-context: gate
`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// listOfConfigMaps is the request with which a backup of the namespace reads
// its ConfigMaps.
func listOfConfigMaps(namespace string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && r.URL.Path == "/api/v1/namespaces/"+namespace+"/configmaps"
	}
}
