package devenv

import (
	"fmt"
	"net"
)

// freePort returns a TCP port of 127.0.0.1 that nobody listens on. Another
// program may take it before it is used; callers try again then.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
