package api_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
)

func TestClientRoundTrip(t *testing.T) {
	t.Parallel()
	url, checked := serve(t, working())
	c, err := client.NewClientWithResponses(url, client.WithHTTPClient(checked))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	spec := berth.Spec{IncludedNamespaces: []string{"shop", "team-*"}, StorageLocation: "cold"}

	created, err := c.CreateBackupWithResponse(ctx, nil, client.BackupRequest{
		Name: new("shop"), Cluster: new("east"), Labels: &map[string]string{"a": "b"}, Spec: spec,
	})
	if err != nil || created.JSON201 == nil {
		t.Fatalf("create: %v %s", err, created.Body)
	}
	got := created.JSON201
	if got.Name != "shop" || got.Cluster != "east" || got.Phase != berth.PhaseQueued || got.Labels["a"] != "b" ||
		got.Queue == nil || got.Queue.BlockedBy[0].Reason != berth.WaitRunningOverlap {
		t.Errorf("created: %s", created.Body)
	}
	if diff := cmp.Diff(spec, got.Spec); diff != "" {
		t.Errorf("spec (-sent +received):\n%s", diff)
	}

	shown, err := c.GetBackupWithResponse(ctx, running.ID)
	if err != nil || shown.JSON200 == nil || !shown.JSON200.StartedAt.Equal(noon) || *shown.JSON200.Slot != 1 {
		t.Errorf("get: %v %s", err, shown.Body)
	}
	phases := []berth.Phase{berth.PhaseQueued, berth.PhaseFailed}
	list, err := c.ListBackupsWithResponse(ctx, &client.ListBackupsParams{Phase: &phases, Limit: new(2), Cursor: new("next/+=")})
	if err != nil || list.JSON200 == nil || len(list.JSON200.Items) != 3 || *list.JSON200.NextCursor != "next/+=" {
		t.Errorf("list: %v %s", err, list.Body)
	}
	queue, err := c.GetQueueWithResponse(ctx, &client.GetQueueParams{Cluster: new("east")})
	if err != nil || queue.JSON200 == nil || queue.JSON200.Running[0].Slot != 1 || queue.JSON200.Waiting[0].Name != "shop" {
		t.Errorf("queue: %v %s", err, queue.Body)
	}
	edited, err := c.EditBackupWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, queued.ID, client.BackupPatch{
		Priority: new(60), StartDeadline: nullable.NewNullNullable[time.Time](),
	})
	if err != nil || edited.JSON200 == nil || edited.JSON200.Priority != 60 {
		t.Errorf("edit: %v %s", err, edited.Body)
	}
	settings, err := c.GetQueueSettingsWithResponse(ctx, nil)
	if err != nil || settings.JSON200 == nil || settings.JSON200.ConcurrentBackups != 2 {
		t.Fatalf("settings: %v %s", err, settings.Body)
	}
	tag := client.ChangeQueueSettingsParams{IfMatch: new(settings.HTTPResponse.Header.Get("ETag"))}
	changed, err := c.ChangeQueueSettingsWithResponse(ctx, &tag, client.SettingsPatch{MaxQueued: nullable.NewNullNullable[int]()})
	if err != nil || changed.JSON200 == nil || changed.JSON200.Version != 8 {
		t.Errorf("change settings: %v %s", err, changed.Body)
	}
	dryRun, err := c.CreateBackupWithResponse(ctx, &client.CreateBackupParams{DryRun: new(true)}, client.BackupRequest{Spec: spec})
	if err != nil || dryRun.JSON200 == nil || dryRun.JSON200.Queue.ETA.Basis != berth.BasisSchedule {
		t.Errorf("dry run: %v %s", err, dryRun.Body)
	}
	live, err := c.GetLivezWithResponse(ctx)
	if err != nil || live.JSON200 == nil {
		t.Errorf("livez: %v %s", err, live.Body)
	}
	ready, err := c.GetReadyzWithResponse(ctx)
	if err != nil || ready.JSON200 == nil {
		t.Errorf("readyz: %v %s", err, ready.Body)
	}
	contract, err := c.GetOpenAPIWithResponse(ctx)
	if err != nil || !bytes.Equal(contract.Body, berth.OpenAPI) {
		t.Errorf("openapi.yaml: %v, %d bytes", err, len(contract.Body))
	}

	missing, err := c.GetBackupWithResponse(ctx, uuid.MustParse(missingID))
	if err != nil || missing.ApplicationProblemJSON404 == nil || missing.ApplicationProblemJSON404.Code != berth.CodeNotFound {
		t.Errorf("get of nothing: %v %s", err, missing.Body)
	}
	refused, err := c.CreateBackupWithResponse(ctx, nil, client.BackupRequest{Name: new("No"), Spec: berth.Spec{}})
	if err != nil || refused.StatusCode() != http.StatusUnprocessableEntity || *refused.ApplicationProblemJSON422.Errors[0].Pointer != "/name" {
		t.Errorf("create of a bad name: %v %s", err, refused.Body)
	}
}
