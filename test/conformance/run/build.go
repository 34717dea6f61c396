package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// ourPrograms returns the names of the programs of this repository that a run starts.
func ourPrograms(set conformance.Set, kit conformance.Kit) []string {
	var programs []string
	if kit.Kubelet == conformance.Ours {
		programs = append(programs, "kubelet")
	}
	// The kubelet's own suite starts no kube-proxy.
	if kit.Proxy == conformance.Ours && set.Suite == conformance.E2E {
		programs = append(programs, "kube-proxy")
	}
	return programs
}

// buildDir is where the programs lie that the run began with: what comes later to the
// working tree doesn't change a run that is on its way.
func (r *runner) buildDir() string { return filepath.Join(r.dir, "bin") }

// compile builds our programs beside those of the run before.
func (r *runner) compile(ctx context.Context) (dir string, err error) {
	dir = r.buildDir() + ".new"
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range ourPrograms(r.cfg.Set, r.cfg.Kit) {
		r.cfg.Progress("building " + name)
		if _, err := testnode.Build(ctx, dir, "examples/"+name); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// keepBuild makes the programs in dir those of the run.
func (r *runner) keepBuild(dir string) error {
	if err := os.RemoveAll(r.buildDir()); err != nil {
		return err
	}
	return os.Rename(dir, r.buildDir())
}

// sums names the programs in dir by their content.
func (r *runner) sums(dir string) ([]string, error) {
	var sums []string
	for _, name := range ourPrograms(r.cfg.Set, r.cfg.Kit) {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("find the %s of the run: %w", name, err)
		}
		sums = append(sums, name+" "+sum)
	}
	return sums, nil
}

func sumOf(path string) (_ string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
}
