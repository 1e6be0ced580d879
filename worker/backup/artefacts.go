package backup

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/berth-backup/berth"
)

// The artefacts of a backup, as annotations name them. The object of one is
// the backup's name, a hyphen (for the archive a dot), and this.
const (
	ArtefactOwner            = "berth.json"
	ArtefactArchive          = "tar.gz"
	ArtefactLog              = "logs.gz"
	ArtefactResults          = "results.gz"
	ArtefactResourceList     = "resource-list.json.gz"
	ArtefactVolumeInfo       = "volumeinfo.json.gz"
	ArtefactItemOperations   = "itemoperations.json.gz"
	ArtefactPodVolumeBackups = "podvolumebackups.json.gz"
	ArtefactVolumeSnapshots  = "volumesnapshots.json.gz"
)

// recordObject is the object that makes a backup exist (Velero's).
const recordObject = "velero-backup.json"

// storeRequests is how many requests of one backup go to the store at a time,
// besides the archive.
const storeRequests = 4

// Artefacts lists every artefact of a whole backup, in the order of writing.
func Artefacts() []string {
	return []string{
		ArtefactOwner, ArtefactArchive, ArtefactLog, ArtefactResults, ArtefactResourceList, ArtefactVolumeInfo,
		ArtefactItemOperations, ArtefactPodVolumeBackups, ArtefactVolumeSnapshots,
	}
}

// ObjectName is the name of the object of a backup's artefact.
func ObjectName(backup, artefact string) string {
	if artefact == ArtefactArchive {
		return backup + "." + artefact
	}
	return backup + "-" + artefact
}

// Artefact is an object of a backup as it was written. Its Name is one of the
// Artefact constants; empty for velero-backup.json.
type Artefact = berth.Artifact

// folder is the place of one attempt's objects in the store.
type folder struct {
	store Store
	run   berth.Run
}

// create writes an object once, without a look at what is there.
func (f folder) create(ctx context.Context, object string, write func(io.Writer) error) (Artefact, error) {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	w, err := f.store.Create(ctx, f.run.Name, object)
	if err != nil {
		return Artefact{}, fmt.Errorf("create %s: %w", object, err)
	}
	sum := &summingWriter{to: w, hash: sha256.New()}
	if err := write(sum); err != nil {
		abort()
		_ = w.Close() // aborts, for the reason that err gives
		return Artefact{}, fmt.Errorf("write %s: %w", object, err)
	}
	a := Artefact{Object: object, Size: sum.size, SHA256: hex.EncodeToString(sum.hash.Sum(nil))}
	if err := w.Close(); err != nil {
		return a, fmt.Errorf("write %s: %w", object, err)
	}
	return a, nil
}

// replace writes an object that may stand in the way of itself: as left by a
// write whose answer was lost, or by an attempt whose lease is lost. What
// another backup owns is never replaced.
func (f folder) replace(ctx context.Context, object string, write func(io.Writer) error) (Artefact, error) {
	const tries = 3
	for try := 1; ; try++ {
		a, err := f.create(ctx, object, write)
		if !errors.Is(err, fs.ErrExist) || try == tries {
			return a, err
		}
		if err := f.checkOwner(ctx); err != nil {
			return Artefact{}, err
		}
		if same, err := f.holds(ctx, a); err != nil || same {
			return a, err
		}
		if err := f.store.Delete(ctx, f.run.Name, object); err != nil {
			return Artefact{}, err
		}
	}
}

// holds says whether the store has exactly what a describes.
func (f folder) holds(ctx context.Context, a Artefact) (bool, error) {
	r, err := f.store.Read(ctx, f.run.Name, a.Object)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return false, fmt.Errorf("read %s: %w", a.Object, err)
	}
	return hex.EncodeToString(hash.Sum(nil)) == a.SHA256, nil
}

// lookUp fails where an object is gone or has another length than was written.
func (f folder) lookUp(ctx context.Context, all []Artefact) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(storeRequests)
	for _, a := range all {
		group.Go(func() error {
			size, err := f.store.Size(ctx, f.run.Name, a.Object)
			if err != nil {
				return fmt.Errorf("look %s up again: %w", a.Object, err)
			}
			if size != a.Size {
				return fmt.Errorf("look %s up again: it has %d bytes, %d were written", a.Object, size, a.Size)
			}
			return nil
		})
	}
	return group.Wait()
}

// writeDescriptions writes the small artefacts, which say what the archive holds.
func (f folder) writeDescriptions(ctx context.Context, log *runLog, r *results, list resourceList) ([]Artefact, error) {
	writers := map[string]func(io.Writer) error{
		ArtefactLog:              log.writeTo,
		ArtefactResults:          compressed(r.writeTo),
		ArtefactResourceList:     compressed(list.writeTo),
		ArtefactVolumeInfo:       compressed(writeEmptyList),
		ArtefactItemOperations:   compressed(writeEmptyList),
		ArtefactPodVolumeBackups: compressed(writeEmptyList),
		ArtefactVolumeSnapshots:  compressed(writeEmptyList),
	}
	names := slices.DeleteFunc(Artefacts(), func(name string) bool { return writers[name] == nil })
	written := make([]Artefact, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(storeRequests)
	for i, name := range names {
		group.Go(func() (err error) {
			written[i], err = f.replace(ctx, ObjectName(f.run.Name, name), writers[name])
			written[i].Name = name
			return err
		})
	}
	return written, group.Wait()
}

func writeEmptyList(w io.Writer) error {
	_, err := io.WriteString(w, "[]\n")
	return err
}

func compressed(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		gz := gzip.NewWriter(w)
		return errors.Join(write(gz), gz.Close())
	}
}

// resourceList is what <name>-resource-list.json.gz holds: "apps/v1/Deployment"
// → "namespace/name" or "name", sorted.
type resourceList map[string][]string

// resourceListOf lists what came into the archive.
func resourceListOf(all *ledgers) resourceList {
	list := resourceList{}
	all.each(func(l *ledger) {
		if keys := l.keys(); len(keys) > 0 {
			slices.Sort(keys)
			list[l.resource.apiVersion()+"/"+l.resource.kind] = keys
		}
	})
	return list
}

// counts are how many objects of each kind the list has.
func (l resourceList) counts() map[string]int {
	kinds := make(map[string]int, len(l))
	for kind, keys := range l {
		kinds[kind] = len(keys)
	}
	return kinds
}

// readResourceList reads what a former attempt wrote.
func (f folder) readResourceList(ctx context.Context) (list resourceList, err error) {
	r, err := f.store.Read(ctx, f.run.Name, ObjectName(f.run.Name, ArtefactResourceList))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	uncompressed, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read the list of resources: %w", err)
	}
	if err := json.NewDecoder(uncompressed).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the list of resources: %w", err)
	}
	return list, nil
}

func (l resourceList) writeTo(w io.Writer) error { return json.NewEncoder(w).Encode(l) }

// summingWriter counts and hashes what goes through it.
type summingWriter struct {
	to   io.Writer
	hash hash.Hash
	size int64
}

func (s *summingWriter) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.hash.Write(p[:n])
	s.size += int64(n)
	return n, err
}
