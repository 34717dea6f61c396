package logs

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// The kubelet's defaults of containerLogMaxSize and containerLogMaxFiles
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/).
const (
	defaultMaxSize  = 10 << 20
	defaultMaxFiles = 5
)

// Policy says when a log is rotated and what is kept.
type Policy struct {
	// MaxSize is how many bytes the live file may have; zero means 10 MiB.
	MaxSize int64
	// MaxFiles is how many files are kept, the live one among them; zero means 5, the
	// least is 2. All but the live one and the newest rotated one are compressed.
	MaxFiles int
}

func (p Policy) withDefaults() (Policy, error) {
	if p.MaxSize == 0 {
		p.MaxSize = defaultMaxSize
	}
	if p.MaxFiles == 0 {
		p.MaxFiles = defaultMaxFiles
	}
	if p.MaxSize < 0 {
		return p, fmt.Errorf("logs: Policy.MaxSize is %d bytes, want 0 (10 MiB) or more", p.MaxSize)
	}
	if p.MaxFiles < 2 {
		return p, fmt.Errorf("logs: Policy.MaxFiles is %d, want 0 (5) or at least 2", p.MaxFiles)
	}
	return p, nil
}

var errNotRegular = errors.New("it is no regular file")

// Rotate renames the log and calls reopen, if the log has grown over policy's size, and
// reports whether it did. Before that it removes what is one file too many and compresses
// what was rotated earlier; readers of this package follow through all of it. reopen asks
// the runtime to write to a new file. When that fails the log gets its name back, so
// that the next call tries again.
//
// A live file that is missing although its folder is there is one that the runtime does
// not write to: a call was cut off between renaming and reopening, or somebody removed
// it. reopen is called for that, too. A folder that is missing has nothing to rotate.
//
// Two calls for one log must not run at the same time. After a crash in the middle the
// next call finishes the work.
func Rotate(ctx context.Context, f File, policy Policy, reopen func(context.Context) error) (rotated bool, err error) {
	policy, err = policy.withDefaults()
	if err != nil {
		return false, err
	}
	d, err := openDir(f)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer d.close()
	info, err := d.live(ctx, reopen)
	if err != nil {
		return false, fmt.Errorf("rotate log %s: %w", f, err)
	}
	if info.size <= policy.MaxSize {
		return false, nil
	}
	if err := d.makeRoom(ctx, policy.MaxFiles-2); err != nil {
		return false, fmt.Errorf("rotate log %s: %w", f, err)
	}
	if err := d.rotate(ctx, reopen); err != nil {
		return false, fmt.Errorf("rotate log %s: %w", f, err)
	}
	return true, nil
}

// live looks at the live file, after it had a missing one made.
func (d *dir) live(ctx context.Context, reopen func(context.Context) error) (fileInfo, error) {
	info, err := infoIn(d.folder, d.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := reopen(ctx); err != nil {
			return fileInfo{}, fmt.Errorf("it is missing, ask the runtime to reopen it: %w", err)
		}
		if info, err = infoIn(d.folder, d.name); err != nil {
			return fileInfo{}, fmt.Errorf("the runtime was asked to reopen it: %w", err)
		}
	}
	if err != nil {
		return fileInfo{}, err
	}
	if !info.regular {
		return fileInfo{}, errNotRegular
	}
	return info, nil
}

// makeRoom leaves the newest keep rotated files, compressed.
func (d *dir) makeRoom(ctx context.Context, keep int) error {
	if err := d.removeUnfinished(); err != nil {
		return err
	}
	stamps, err := d.rotated()
	if err != nil {
		return err
	}
	surplus := max(len(stamps)-keep, 0)
	for _, stamp := range stamps[:surplus] {
		for _, suffix := range []string{"", compressedSuffix} {
			if err := removeIn(d.folder, d.name+"."+stamp+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, stamp := range stamps[surplus:] {
		if err := d.compress(ctx, d.name+"."+stamp); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes what a crash left of a compression.
func (d *dir) removeUnfinished() error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		base, found := strings.CutSuffix(name, unfinishedSuffix)
		if _, ok := d.stampOf(base); !found || !ok {
			continue
		}
		if err := removeIn(d.folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// compress replaces a file by its compressed form. There is always one of the two. A file
// that is not there was compressed earlier.
func (d *dir) compress(ctx context.Context, name string) error {
	in, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	temporary := name + unfinishedSuffix
	if err := d.writeCompressed(ctx, temporary, in); err != nil {
		return errors.Join(fmt.Errorf("compress %s: %w", in.Name(), err), removeIn(d.folder, temporary))
	}
	if err := replaceIn(d.folder, temporary, name+compressedSuffix); err != nil {
		return err
	}
	return removeIn(d.folder, name)
}

func (d *dir) writeCompressed(ctx context.Context, name string, in io.Reader) error {
	out, err := createIn(d.folder, name)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, readSize)
	z := gzip.NewWriter(buffered)
	_, err = io.Copy(z, &untilDone{ctx: ctx, src: in})
	// The original is removed after this, so the copy must be on the disk.
	return errors.Join(err, z.Close(), buffered.Flush(), out.Sync(), out.Close())
}

// untilDone is a reader that fails once its context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // It lives for one call of io.Copy.
	src io.Reader
}

// Read reads from src.
func (r *untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(b)
}

func (d *dir) rotate(ctx context.Context, reopen func(context.Context) error) error {
	stamp, err := d.nextStamp(time.Now())
	if err != nil {
		return err
	}
	away := d.name + "." + stamp
	if err := renameIn(d.folder, d.name, away); err != nil {
		return err
	}
	if err := reopen(ctx); err != nil {
		err = fmt.Errorf("ask the runtime to reopen it: %w", err)
		// A runtime that opened it after all keeps its file: the name is not free then.
		if back := renameIn(d.folder, away, d.name); back != nil && !errors.Is(back, fs.ErrExist) {
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// nextStamp is the time, but later than every stamp so far: two rotations within a
// second, or a clock that was set back, must not mix up the order.
func (d *dir) nextStamp(now time.Time) (string, error) {
	stamps, err := d.rotated()
	if err != nil {
		return "", err
	}
	stamp := now.Format(stampFormat)
	if len(stamps) == 0 || stamp > stamps[len(stamps)-1] {
		return stamp, nil
	}
	last, err := time.Parse(stampFormat, stamps[len(stamps)-1])
	if err != nil {
		return "", err
	}
	return last.Add(time.Second).Format(stampFormat), nil
}
