package backup

import "strings"

// resource is one type of object of a cluster, in the version that is backed up.
type resource struct {
	group, version string
	// plural is the name in URLs ("deployments"), kind the one in objects ("Deployment").
	plural, singular, kind string
	shortNames             []string
	namespaced             bool
	// collectable resources can be listed, and what was listed can be created again.
	collectable bool
}

// String is the resource's name without its version, as Velero's filters and
// archives spell it: "pods", "deployments.apps".
func (r resource) String() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

func (r resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// url is the path of the list of r's objects, in one namespace or, where
// namespace is empty, in the whole cluster.
func (r resource) url(namespace string) string {
	var b strings.Builder
	if r.group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + r.group + "/")
	}
	b.WriteString(r.version + "/")
	if namespace != "" {
		b.WriteString("namespaces/" + namespace + "/")
	}
	return b.String() + r.plural
}

func (r resource) isNamespaces() bool { return r.group == "" && r.plural == "namespaces" }

// cohabitants are resources that show the same objects under two groups. Of
// each pair one is backed up (the list is Velero's).
var cohabitants = map[string]string{
	"deployments.apps":                  "deployments.extensions",
	"deployments.extensions":            "deployments.apps",
	"daemonsets.apps":                   "daemonsets.extensions",
	"daemonsets.extensions":             "daemonsets.apps",
	"replicasets.apps":                  "replicasets.extensions",
	"replicasets.extensions":            "replicasets.apps",
	"networkpolicies.networking.k8s.io": "networkpolicies.extensions",
	"networkpolicies.extensions":        "networkpolicies.networking.k8s.io",
	"events":                            "events.events.k8s.io",
	"events.events.k8s.io":              "events",
}
