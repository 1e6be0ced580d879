package backup

import (
	"fmt"
	"slices"
	"strings"
)

// warnOfVolumes names the claims whose objects are in the archive while their
// data is not. Whoever says snapshotVolumes: false knows.
func (c *collector) warnOfVolumes() {
	if c.run.Spec.SnapshotVolumes != nil {
		return
	}
	claims := map[string][]string{}
	for _, key := range c.plan.ledgers.ledger(resource{version: "v1", plural: resourceClaims, namespaced: true}).keys() {
		namespace, name := splitKey(key)
		claims[namespace] = append(claims[namespace], name)
	}
	for namespace, names := range claims {
		slices.Sort(names)
		c.results.warning(namespace, fmt.Sprintf("the data of these PersistentVolumeClaims is not in the backup, only their objects: %s", strings.Join(names, ", ")))
	}
}

// warnOfNothing says that the archive is empty, where nothing else tells why: no
// backup is silently empty.
func (c *collector) warnOfNothing() {
	errors, warnings := c.results.counts()
	if c.meter.progress().ItemsBackedUp == 0 && errors+warnings == 0 {
		c.results.warning("", "the backup is empty: the cluster has nothing that the spec asks for")
	}
}
