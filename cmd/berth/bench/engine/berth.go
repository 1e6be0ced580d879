package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	berthdomain "github.com/berth-backup/berth"
	"github.com/berth-backup/berth/api/client"
)

// places is how many backups run at once, workers how many each has: as in the
// measurements of Velero.
const (
	places  = 5
	workers = 4
)

// berth is a server and a worker of this very program.
type berth struct {
	server, worker *process
	api            *client.ClientWithResponses
}

func startBerth(ctx context.Context, o Options) (_ *berth, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &berth{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	environment := []string{"BERTH_DATABASE_URL=" + o.DatabaseURL, "BERTH_STORAGE_URL=" + o.StorageURL, "KUBECONFIG=" + o.Kubeconfig}
	if b.server, err = startProcess("berth server", self, environment, "server", "--listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	address, err := b.server.says(ctx, `msg=serving address=(\S+)`)
	if err != nil {
		return nil, err
	}
	if b.api, err = client.NewClientWithResponses("http://" + address); err != nil {
		return nil, err
	}
	// Its Backup objects have nowhere to go where Velero's kind is not defined: the
	// mirror waits, and nothing waits for the mirror.
	b.worker, err = startProcess("berth worker", self, environment, "worker", "--velero-namespace", "default",
		"--concurrent-backups", fmt.Sprint(places), "--item-block-worker-count", fmt.Sprint(workers))
	if err != nil {
		return nil, err
	}
	_, err = b.worker.says(ctx, `msg=working`)
	return b, err
}

func (b *berth) name() string { return "berth" }

func (b *berth) pid() int { return b.worker.cmd.Process.Pid }

func (b *berth) stop() error { return errors.Join(b.worker.stop(), b.server.stop()) }

func (b *berth) post(ctx context.Context, name string, namespaces []string) (client.Backup, error) {
	answer, err := b.api.CreateBackupWithResponse(ctx, nil, client.BackupRequest{Name: &name, Spec: berthdomain.Spec{IncludedNamespaces: namespaces}})
	if err != nil {
		return client.Backup{}, err
	}
	if answer.JSON201 == nil {
		return client.Backup{}, fmt.Errorf("POST /backups: %s: %s", answer.HTTPResponse.Status, answer.Body)
	}
	return *answer.JSON201, nil
}

func (b *berth) take(ctx context.Context, name string, namespaces []string) (taken, error) {
	began := time.Now()
	asked, err := b.post(ctx, name, namespaces)
	if err != nil {
		return taken{}, err
	}
	done, err := b.await(ctx, asked)
	if err != nil {
		return taken{}, err
	}
	return taken{took: time.Since(began), items: done.Progress.ItemsBackedUp}, nil
}

// await waits until a backup is Completed.
func (b *berth) await(ctx context.Context, asked client.Backup) (done client.Backup, err error) {
	err = until(ctx, func() (bool, error) {
		answer, err := b.api.GetBackupWithResponse(ctx, asked.ID)
		if err != nil || answer.JSON200 == nil {
			return false, errors.Join(err, fmt.Errorf("GET /backups/%s: %s", asked.ID, answer.Body))
		}
		done = *answer.JSON200
		if done.Phase.Terminal() && done.Phase != berthdomain.PhaseCompleted {
			return false, fmt.Errorf("backup %s is %s: %s", done.Name, done.Phase, *done.Message)
		}
		return done.Phase == berthdomain.PhaseCompleted, nil
	})
	return done, err
}

// takeAll sends all requests at once and waits for the last backup to end.
func (b *berth) takeAll(ctx context.Context, prefix string, namespaces []string) (crowd, error) {
	began := time.Now()
	asked := make([]client.Backup, len(namespaces))
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, namespace := range namespaces {
		group.Go(func() (err error) {
			asked[i], err = b.post(sending, fmt.Sprintf("%s-%03d", prefix, i), []string{namespace})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return crowd{}, err
	}
	// One request for all of them: polling each would be work of its own.
	err := until(ctx, func() (bool, error) {
		answer, err := b.api.GetQueueWithResponse(ctx, nil)
		if err != nil || answer.JSON200 == nil {
			return false, errors.Join(err, fmt.Errorf("GET /queue: %s", answer.Body))
		}
		return len(answer.JSON200.Waiting)+len(answer.JSON200.Running) == 0, nil
	})
	if err != nil {
		return crowd{}, err
	}
	took := time.Since(began)
	var inUse time.Duration
	var first, last time.Time
	for _, one := range asked {
		done, err := b.await(ctx, one)
		if err != nil {
			return crowd{}, err
		}
		inUse += done.CompletedAt.Sub(*done.ReadyAt)
		if first.IsZero() || done.ReadyAt.Before(first) {
			first = *done.ReadyAt
		}
		if done.CompletedAt.After(last) {
			last = *done.CompletedAt
		}
	}
	return crowd{took: took, busy: inUse.Seconds() / (places * last.Sub(first).Seconds())}, nil
}
