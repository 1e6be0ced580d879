package devenv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// startEtcd starts an etcd in the folder and returns it with its URL.
func startEtcd(ctx context.Context, path string, dir *folder) (*process, string, error) {
	var err error
	for range startAttempts {
		var p *process
		var endpoint string
		if p, endpoint, err = runEtcd(ctx, path, dir); err == nil {
			return p, endpoint, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, "", err
}

func runEtcd(ctx context.Context, path string, dir *folder) (*process, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", port)
	name := "berth-" + rand.Text()
	server := command{
		name: "etcd",
		path: path,
		dir:  dir.path,
		args: []string{
			"--name=" + name,
			"--data-dir=" + dir.join(name),
			"--listen-client-urls=" + endpoint,
			"--advertise-client-urls=" + endpoint,
			"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
	}
	p, err := server.start(dir.join("etcd.log"))
	if err != nil {
		return nil, "", err
	}
	probe := func(ctx context.Context) error { return isEtcd(ctx, endpoint, name) }
	if err := waitReady(ctx, p, 20*time.Millisecond, probe); err != nil {
		return nil, "", errors.Join(err, p.end())
	}
	return p, endpoint, nil
}

// isEtcd asks the etcd at the URL its name. Another process's etcd may have got
// the port, and two API servers on one etcd would be one.
func isEtcd(ctx context.Context, endpoint, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/v3/cluster/member/list", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	// A transport of its own leaves no idle connection behind.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var list struct {
		Members []struct{ Name string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return fmt.Errorf("list the members of %s: %w", endpoint, err)
	}
	if len(list.Members) != 1 || list.Members[0].Name != name {
		return fmt.Errorf("another etcd answers at %s", endpoint)
	}
	return nil
}
