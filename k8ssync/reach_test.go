package k8ssync

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
)

func TestReach(t *testing.T) {
	t.Parallel()
	k, _ := cluster(t)
	if err := newInventory(t, k.Config, &inventoryRows{}, InventoryOptions{}).Reach(context.Background()); err != nil {
		t.Errorf("a cluster that answers: %v", err)
	}
	nobody := newInventory(t, &rest.Config{Host: "http://127.0.0.1:1"}, &inventoryRows{}, InventoryOptions{})
	if err := nobody.Reach(context.Background()); err == nil {
		t.Error("nobody answers, and no error says so")
	}
}
