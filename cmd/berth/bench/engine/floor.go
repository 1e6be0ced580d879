package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// listAll reads the objects of a work in pages of 500, one after another, and
// decodes no more of them than where the next page begins: no backup is faster.
func listAll(ctx context.Context, config *rest.Config, w work, namespaces []string) (time.Duration, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.DisableCompression = true
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	began, seen := time.Now(), 0
	for _, of := range w.lists {
		places := namespaces
		if of == volumes {
			places = []string{""}
		}
		for _, namespace := range places {
			path := "/api/v1/" + of.Resource
			if namespace != "" {
				path = "/api/v1/namespaces/" + namespace + "/" + of.Resource
			}
			for token := ""; ; {
				request := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Param("limit", "500")
				if token != "" {
					request.Param("continue", token)
				}
				body, err := request.Stream(ctx)
				if err != nil {
					return 0, err
				}
				text, err := io.ReadAll(body)
				_ = body.Close()
				if err != nil {
					return 0, err
				}
				seen += bytes.Count(text, []byte(`"uid":"`))
				if token, err = continuation(text); err != nil {
					return 0, err
				}
				if token == "" {
					break
				}
			}
		}
	}
	if seen < w.items {
		return 0, fmt.Errorf("a bare list shows %d objects of %d", seen, w.items)
	}
	return time.Since(began), nil
}

// continuation is where the next page begins: the list's own metadata comes first.
func continuation(list []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(list))
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", fmt.Errorf("a list without metadata: %w", err)
		}
		if token == "metadata" {
			var metadata struct {
				Continue string `json:"continue"`
			}
			return metadata.Continue, decoder.Decode(&metadata)
		}
	}
}

// served is a counter of the API server's metrics.
var served = regexp.MustCompile(`^apiserver_request_total\{.*\} ([0-9.e+]+)$`)

// requestsServed is how many requests the API server has answered.
func requestsServed(ctx context.Context, config *rest.Config) (int, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if found := served.FindStringSubmatch(lines.Text()); found != nil {
			n, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return int(total), nil
}

// resetPeak makes a process's largest resident set what it is now.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakOf is the largest resident set of a process, in bytes.
func peakOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); slices.Contains(fields, "VmHWM:") {
			kB, err := strconv.Atoi(fields[1])
			return kB << 10, err
		}
	}
	return 0, fmt.Errorf("process %d does not tell its largest resident set", pid)
}
