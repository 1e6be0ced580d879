package k8ssync

import "k8s.io/client-go/rest"

// unlimited is a copy of config without client-go's own limit of five requests
// a second: the mirror bounds its writes itself, and the API server has
// priority and fairness.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.RateLimiter = nil
	return config
}
