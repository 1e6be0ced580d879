package k8ssync

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reachTimeout is how long the API server may take to list one namespace.
const reachTimeout = 10 * time.Second

// Reach says whether the cluster's API answers: it lists one namespace. nil if it
// does.
func (i *Inventory) Reach(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	namespaces := i.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if _, err := namespaces.List(asked, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("reach cluster %s: %w", i.cluster, err)
	}
	return nil
}
