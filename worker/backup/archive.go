package backup

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/pgzip"

	"github.com/berth-backup/berth"
)

const (
	// compression is the fastest level: on manifests the next ones gain a few
	// per cent of size for twice the time.
	compression = gzip.BestSpeed
	// gzipBlock and gzipBlocks bound what is being compressed at a time.
	gzipBlock  = 512 << 10
	gzipBlocks = 4
	// fileMode is what Velero gives the files of an archive.
	fileMode = 0o755
)

// archive is a tarball in Velero's format 1.1.0 on its way to the store:
// metadata/version, then each object twice. Nothing of it is kept.
type archive struct {
	mu     sync.Mutex
	tar    *tar.Writer
	gzip   *pgzip.Writer
	time   time.Time
	object []byte
}

// newArchive begins an archive whose files bear the time now.
func newArchive(to io.Writer, now time.Time) (*archive, error) {
	gz, err := pgzip.NewWriterLevel(to, compression)
	if err != nil {
		return nil, fmt.Errorf("begin the archive: %w", err)
	}
	if err := gz.SetConcurrency(gzipBlock, gzipBlocks); err != nil {
		return nil, fmt.Errorf("begin the archive: %w", err)
	}
	// Whole seconds fit a plain tar header.
	a := &archive{tar: tar.NewWriter(gz), gzip: gz, time: now.UTC().Truncate(time.Second)}
	if err := a.add("", []byte(berth.FormatVersion+"\n"), "metadata/version"); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// add writes the file whose content is start and rest under each of the names.
func (a *archive) add(start string, rest []byte, names ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.object = append(append(a.object[:0], start...), rest...)
	for _, name := range names {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: fileMode,
			Size: int64(len(a.object)), ModTime: a.time,
		}
		if err := a.tar.WriteHeader(&header); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
		if _, err := a.tar.Write(a.object); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
	}
	return nil
}

// close writes the archive's end. It must be called in any case, since the
// compressor has goroutines; an archive that is not whole is not committed.
func (a *archive) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.tar.Close(), a.gzip.Close())
}
