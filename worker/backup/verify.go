package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/berth-backup/berth"
)

// Recorded is what the rows say of a backup in the store.
type Recorded struct {
	ID        uuid.UUID
	Name      string
	Artifacts []berth.Artifact
	Kinds     map[string]int
}

// Verified is what was found of a backup in the store.
type Verified struct {
	// Objects and Bytes were read of the store, Items are the objects of the archive.
	Objects int
	Bytes   int64
	Items   int
	// Differences are sentences, one for each thing that is not as it was written.
	Differences []string
}

// Verify reads a backup again, whole, and holds it against what the rows and its
// own velero-backup.json say. It holds one object of the archive in memory at a
// time. An error means that the store could not be read.
func Verify(ctx context.Context, store Store, want Recorded) (Verified, error) {
	v := &verifier{folder: folder{store, berth.Run{Name: want.Name, ID: want.ID}}, want: want}
	if err := v.verify(ctx); err != nil {
		return Verified{}, fmt.Errorf("verify backup %s: %w", want.Name, err)
	}
	return v.found, nil
}

type verifier struct {
	folder folder
	want   Recorded
	found  Verified
}

func (v *verifier) differ(format string, args ...any) {
	v.found.Differences = append(v.found.Differences, fmt.Sprintf(format, args...))
}

func (v *verifier) verify(ctx context.Context) error {
	proofs, err := v.proofs(ctx)
	if err != nil {
		return err
	}
	var kinds map[string]int
	for _, a := range v.want.Artifacts {
		check := func(io.Reader) error { return nil }
		if a.Name == ArtefactArchive {
			check = func(r io.Reader) (err error) {
				kinds, err = v.readArchive(r)
				return err
			}
		}
		if err := v.object(ctx, a, proofs[a.Name], check); err != nil {
			return err
		}
	}
	if kinds != nil {
		v.compareKinds("the row says", v.want.Kinds, kinds)
	}
	list, err := v.folder.readResourceList(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist): // said already
	case err != nil:
		v.differ("%s: %v", ObjectName(v.want.Name, ArtefactResourceList), err)
	case kinds != nil:
		v.compareKinds("the list of resources says", list.counts(), kinds)
	}
	return nil
}

// proofs are the checksums that velero-backup.json gives, by artefact.
func (v *verifier) proofs(ctx context.Context) (map[string]string, error) {
	body, err := v.folder.readSmall(ctx, recordObject)
	if errors.Is(err, fs.ErrNotExist) {
		v.differ("%s is missing", recordObject)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v.found.Objects++
	v.found.Bytes += int64(len(body))
	var record berth.VeleroBackup
	if err := json.Unmarshal(body, &record); err != nil {
		v.differ("%s cannot be read: %v", recordObject, err)
		return nil, nil
	}
	annotations := record.Metadata.Annotations
	if id := annotations[berth.AnnotationID]; id != v.want.ID.String() {
		v.differ("%s is of the backup %q, not of %s", recordObject, id, v.want.ID)
	}
	if record.Metadata.Name != v.want.Name {
		v.differ("%s is of a backup called %q", recordObject, record.Metadata.Name)
	}
	proofs := map[string]string{}
	for key, sum := range annotations {
		if name, ok := strings.CutPrefix(key, berth.AnnotationSHA256Prefix); ok {
			proofs[name] = sum
		}
	}
	return proofs, nil
}

// object reads one object of the store to its end, through check.
func (v *verifier) object(ctx context.Context, a berth.Artifact, proof string, check func(io.Reader) error) error {
	r, err := v.folder.store.Read(ctx, v.want.Name, a.Object)
	if errors.Is(err, fs.ErrNotExist) {
		v.differ("%s is missing", a.Object)
		return nil
	}
	if err != nil {
		return err
	}
	sum := &summingWriter{to: io.Discard, hash: sha256.New()}
	checkErr := check(io.TeeReader(r, sum))
	if ctx.Err() == nil && checkErr != nil {
		v.differ("%s: %v", a.Object, checkErr)
	}
	_, err = io.Copy(sum, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read %s: %w", a.Object, err)
	}
	v.found.Objects++
	v.found.Bytes += sum.size
	got := hex.EncodeToString(sum.hash.Sum(nil))
	if sum.size != a.Size {
		v.differ("%s has %d bytes, %d were written", a.Object, sum.size, a.Size)
	}
	if got != a.SHA256 {
		v.differ("%s has the SHA-256 %s, not %s, which was written", a.Object, got, a.SHA256)
	}
	if proof != "" && proof != a.SHA256 {
		v.differ("%s: %s gives the SHA-256 %s, the row %s", a.Object, recordObject, proof, a.SHA256)
	}
	return nil
}

// readArchive walks an archive and counts the objects of each kind.
func (v *verifier) readArchive(r io.Reader) (map[string]int, error) {
	uncompressed, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	kinds, plain, versioned := map[string]int{}, map[string][32]byte{}, map[string][32]byte{}
	hasVersion := false
	for files := tar.NewReader(uncompressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		if header.Name == "metadata/version" {
			hasVersion = string(body) == berth.FormatVersion+"\n"
			continue
		}
		place, isVersioned := unversioned(header.Name)
		to := plain
		if isVersioned {
			to = versioned
		}
		if _, twice := to[place]; twice {
			v.differ("%s stands twice in the archive", header.Name)
		}
		to[place] = sha256.Sum256(body)
		kind, err := checkObject(header.Name, body)
		if err != nil {
			v.differ("%s of the archive: %v", header.Name, err)
		}
		if !isVersioned {
			v.found.Items++
			kinds[kind]++
		}
	}
	if !hasVersion {
		v.differ("the archive does not say that it has the format %s", berth.FormatVersion)
	}
	if !maps.Equal(plain, versioned) {
		v.differ("the two places of an object differ in the archive")
	}
	return kinds, nil
}

// unversioned is an object's plain path, and whether name is the other one.
func unversioned(name string) (string, bool) {
	parts := strings.Split(name, "/")
	if len(parts) > 3 && strings.HasSuffix(parts[2], "-preferredversion") {
		return strings.Join(slices.Delete(parts, 2, 3), "/"), true
	}
	return name, false
}

// checkObject reads an object of an archive and says which kind it has.
func checkObject(name string, body []byte) (kind string, err error) {
	var o struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name, Namespace string }
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return "", err
	}
	place := "cluster"
	if o.Metadata.Namespace != "" {
		place = "namespaces/" + o.Metadata.Namespace
	}
	switch {
	case o.APIVersion == "" || o.Kind == "":
		return "", errors.New("it has no apiVersion or no kind")
	case path.Base(name) != o.Metadata.Name+".json" || !strings.HasSuffix(path.Dir(name), "/"+place):
		return "", fmt.Errorf("it holds %s/%s", o.Metadata.Namespace, o.Metadata.Name)
	}
	return o.APIVersion + "/" + o.Kind, nil
}

func (v *verifier) compareKinds(who string, want, got map[string]int) {
	for _, kind := range slices.Sorted(maps.Keys(got)) {
		if want[kind] != got[kind] {
			v.differ("%s that there are %d of %s, the archive has %d", who, want[kind], kind, got[kind])
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if got[kind] == 0 {
			v.differ("%s that there are %d of %s, the archive has none", who, want[kind], kind)
		}
	}
}
