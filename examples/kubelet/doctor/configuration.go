package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/staticpods"
)

// lookAtConfiguration tells what is wrong in the files, with their lines.
func lookAtConfiguration(_ context.Context, n *Node, r *report) {
	warnings := 0
	for _, p := range n.Problems {
		if p.Severity == config.Error {
			r.problem("correct it: a kubelet does not start with it", "%s", p)
			continue
		}
		warnings++
	}
	switch {
	case !r.fine():
	case warnings > 0:
		r.ok("valid; %d settings have no effect, see kubelet --validate-config", warnings)
	default:
		r.ok("valid")
	}
}

// lookAtManifests reads every manifest as the kubelet does.
func lookAtManifests(_ context.Context, n *Node, r *report) {
	path := n.Kubelet.StaticPodPath
	if path == "" {
		r.skip("staticPodPath is not set")
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.skip("there is no %s: no pod comes from there", path)
		return
	case err != nil:
		r.problem("let the kubelet read it, or correct staticPodPath", "%s", err)
		return
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			r.problem("let the kubelet read it", "%s", err)
			return
		}
		files = manifests(path, entries)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			r.problem("let the kubelet read it", "%s", err)
			continue
		}
		if _, err := staticpods.Decode(data, n.Name); err != nil {
			r.problem("correct the manifest: its pod does not run, or only its last good version does", "%s: %s", file, oneLine(err.Error()))
		}
	}
	if r.fine() {
		r.ok("%d in %s", len(files), path)
	}
}

// manifests are the files of a directory that the kubelet reads.
func manifests(dir string, entries []os.DirEntry) []string {
	var files []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if (e.Type().IsRegular() || e.Type()&os.ModeSymlink != 0) && !strings.HasPrefix(e.Name(), ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}
