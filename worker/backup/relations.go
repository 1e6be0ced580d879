package backup

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// The resources whose objects belong to others (velero.md of Velero's
// ItemBlockActions): a pod to its claims and its PriorityClass, a claim to its
// volume, a ServiceAccount to the ClusterRoles that it is bound to.
const (
	resourcePods            = "pods"
	resourceClaims          = "persistentvolumeclaims"
	resourceVolumes         = "persistentvolumes"
	resourceServiceAccounts = "serviceaccounts"
	resourcePriorityClasses = "priorityclasses.scheduling.k8s.io"
	resourceBindings        = "clusterrolebindings.rbac.authorization.k8s.io"
	resourceClusterRoles    = "clusterroles.rbac.authorization.k8s.io"
	resourceDefinitions     = "customresourcedefinitions.apiextensions.k8s.io"
)

// defaultVolumeGroupLabel puts claims of one value into one block (Velero's).
const defaultVolumeGroupLabel = "velero.io/volume-group"

// podRelations is what a pod says of the objects that it needs.
type podRelations struct {
	// claims are the names of the PersistentVolumeClaims that it mounts.
	claims        []string
	priorityClass string
	// running pods are pulled in by the claims that they mount; ended ones have
	// no container that a hook could run in.
	running, ended bool
	annotations    map[string]string
}

// podOf reads a pod's relations from its JSON.
func podOf(raw []byte) (podRelations, error) {
	var p podRelations
	err := fields(raw, func(key, value []byte) error {
		switch string(key) {
		case `"metadata"`:
			return fields(value, func(key, value []byte) error {
				// Few pods have a hook: the annotations of others are not decoded.
				if string(key) == `"annotations"` && bytes.Contains(value, []byte(hookAnnotation)) {
					return json.Unmarshal(value, &p.annotations)
				}
				return nil
			})
		case `"spec"`:
			return fields(value, p.readSpec)
		case `"status"`:
			return fields(value, func(key, value []byte) error {
				if string(key) == `"phase"` {
					p.running = string(value) == `"Running"`
					p.ended = string(value) == `"Succeeded"` || string(value) == `"Failed"`
				}
				return nil
			})
		}
		return nil
	})
	return p, err
}

func (p *podRelations) readSpec(key, value []byte) (err error) {
	switch {
	case string(key) == `"priorityClassName"`:
		p.priorityClass, err = text(value)
	case string(key) == `"volumes"` && bytes.Contains(value, []byte(`"persistentVolumeClaim"`)):
		var volumes []struct {
			PersistentVolumeClaim *struct {
				ClaimName string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
		}
		if err := json.Unmarshal(value, &volumes); err != nil {
			return err
		}
		for _, v := range volumes {
			if v.PersistentVolumeClaim != nil {
				p.claims = append(p.claims, v.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return err
}

// volumeOf is the name of the PersistentVolume that a claim is bound to; empty
// where it is not bound.
func volumeOf(raw []byte) (string, error) {
	name, bound := "", false
	err := fields(raw, func(key, value []byte) error {
		switch string(key) {
		case `"spec"`:
			return fields(value, func(key, value []byte) (err error) {
				if string(key) == `"volumeName"` {
					name, err = text(value)
				}
				return err
			})
		case `"status"`:
			return fields(value, func(key, value []byte) error {
				if string(key) == `"phase"` {
					bound = string(value) == `"Bound"`
				}
				return nil
			})
		}
		return nil
	})
	if !bound {
		return "", err
	}
	return name, err
}

// binding is what a ClusterRoleBinding binds.
type binding struct {
	name string
	// accounts are the ServiceAccounts that it names, as "namespace/name".
	accounts []string
	// role is the ClusterRole that it gives them.
	role string
}

func bindingOf(name string, raw []byte) (binding, error) {
	b := binding{name: name}
	// Most bind users and groups.
	if !bytes.Contains(raw, []byte(`"ServiceAccount"`)) {
		return b, nil
	}
	var decoded struct {
		Subjects []struct{ Kind, Namespace, Name string } `json:"subjects"`
		RoleRef  struct{ Kind, Name string }              `json:"roleRef"`
	}
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return b, err
	}
	for _, s := range decoded.Subjects {
		if s.Kind == "ServiceAccount" {
			b.accounts = append(b.accounts, s.Namespace+"/"+s.Name)
		}
	}
	if decoded.RoleRef.Kind == "ClusterRole" {
		b.role = decoded.RoleRef.Name
	}
	return b, nil
}

// bindsAny says whether the binding names one of the ServiceAccounts that
// isTaken knows.
func (b binding) bindsAny(isTaken func(account string) bool) bool {
	return slices.ContainsFunc(b.accounts, isTaken)
}

// definitionOf names the definition of a custom resource; false for resources
// that cannot be custom: a definition's group has a dot (Kubernetes' rule).
func definitionOf(r resource) (name string, ok bool) {
	return r.plural + "." + r.group, strings.Contains(r.group, ".")
}
