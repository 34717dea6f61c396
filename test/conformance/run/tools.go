package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/testnode"
)

const kubernetesTools = "test/tools/kubernetes"

// tool returns the path of one of Kubernetes' programs, built when it is missing.
func tool(ctx context.Context, name string) (string, error) {
	return testnode.ToolOf(ctx, name, kubernetesTools)
}

// listSpecs asks the set's suite for the names of all its specs.
func listSpecs(ctx context.Context, set conformance.Set) ([]string, error) {
	suite, err := tool(ctx, string(set.Suite))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, suite, "--list-tests")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the specs of %s: %w: %s", set.Suite, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return conformance.ParseList(bytes.NewReader(out))
}

// findGroups asks the set's suite which of its specs belong together. Only those of
// test/e2e_node run in batches, and only there are specs that need others of their
// container.
func findGroups(ctx context.Context, set conformance.Set) (groups conformance.Groups, err error) {
	if set.Suite != conformance.E2ENode {
		return groups, nil
	}
	suite, err := tool(ctx, string(set.Suite))
	if err != nil {
		return groups, err
	}
	dir, err := os.MkdirTemp("", "specs")
	if err != nil {
		return groups, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	report := filepath.Join(dir, reportFile)
	cmd := exec.CommandContext(ctx, suite, "--ginkgo.dry-run", "--ginkgo.json-report="+report)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return groups, fmt.Errorf("ask %s which specs belong together: %w: %s", set.Suite, err, bytes.TrimSpace(out))
	}
	file, err := os.Open(report)
	if err != nil {
		return groups, err
	}
	defer file.Close()
	return conformance.ParseGroups(file)
}

// versions names the programs of others, save the container runtime, which tells its own.
func versions(ctx context.Context, cfg Config) ([]string, error) {
	suite, err := tool(ctx, string(cfg.Set.Suite))
	if err != nil {
		return nil, err
	}
	_, release, _ := strings.Cut(filepath.Base(suite), "@")
	kernel, err := kernelRelease()
	if err != nil {
		return nil, err
	}
	return []string{"kubernetes " + release, "kernel " + kernel}, nil
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("ask for the kernel's release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// unknownCommit stands for the commit where git does not tell it: a tree without history,
// or one that belongs to another user.
const unknownCommit = "unknown"

// workingTree names the commit, and by a sum of its changes what differs from it, files
// that git does not know included. What becomes no part of a program is left out: documents
// and what runs record.
func workingTree(ctx context.Context) string {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return unknownCommit
	}
	name := string(bytes.TrimSpace(commit))
	changes, err := changesOf(ctx)
	switch {
	case err != nil:
		return name + "+" + unknownCommit
	case len(changes) > 0:
		sum := sha256.Sum256(changes)
		name += "+" + hex.EncodeToString(sum[:4])
	}
	return name
}

// changesOf returns what differs from the commit: what git says of each file, and its
// content now.
func changesOf(ctx context.Context) ([]byte, error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return nil, fmt.Errorf("ask git for the folder of the working tree: %w", err)
	}
	status, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--",
		":(top)", ":(top,exclude)docs", ":(top,exclude)*.md",
		":(top,exclude)test/conformance/results", ":(top,exclude)test/conformance/ratchet").Output()
	if err != nil {
		return nil, fmt.Errorf("ask git for changes: %w", err)
	}
	const state = 3 // Two letters and a space stand before the path.
	var changes bytes.Buffer
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(status), "\x00"), "\x00") {
		if len(entry) <= state {
			continue
		}
		fmt.Fprintf(&changes, "%s\n", entry)
		content, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(root)), entry[state:]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		fmt.Fprintf(&changes, "%d %s\n", len(content), content)
	}
	return changes.Bytes(), nil
}

// CheckLater returns an error when the run's programs are older than those of a run that
// is recorded already: runs that count in a row are of the same build or of later ones.
// Where git does not know a commit any more, or the recorded run is of upstream's
// programs, there is nothing to compare.
func CheckLater(ctx context.Context, recorded, run conformance.Record) error {
	before, now := commitOf(recorded), commitOf(run)
	if now == unknownCommit {
		return errors.New("git does not tell the commit of the programs, so nothing says whether later runs are of later ones")
	}
	if before == "" || now == "" || before == now {
		return nil
	}
	err := exec.CommandContext(ctx, "git", "merge-base", "--is-ancestor", before, now).Run()
	const isNot = 1 // The exit status; another one means that git can't tell.
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == isNot {
		return fmt.Errorf("a run of commit %s is recorded, and %s does not come after it", before, now)
	}
	return nil
}

// commitOf returns the commit of our programs without what differed from it.
func commitOf(record conformance.Record) string {
	commit, _, _ := strings.Cut(record.Version("nodekit"), "+")
	return commit
}
