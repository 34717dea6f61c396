package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Images of the test cluster itself.
const (
	// PauseRef is the image that holds a pod's namespaces open in containerd 1.6 and
	// the configurations of this repository.
	PauseRef = "registry.k8s.io/pause:3.10.1"
	// CoreDNSRef is the image of the cluster's name server.
	CoreDNSRef = "registry.k8s.io/coredns/coredns:v1.15.0"
)

// Images that the suites of Kubernetes 1.37 ask for, by test/utils/image/manifest.go
// of that release.
const (
	SuitePauseRef   = "registry.k8s.io/pause:3.10.2"
	AgnhostRef      = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
	AgnhostPrevRef  = "registry.k8s.io/e2e-test-images/agnhost:2.55"
	BusyBoxRef      = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
	NginxRef        = "registry.k8s.io/e2e-test-images/nginx:1.27.0-2"
	NginxNewRef     = "registry.k8s.io/e2e-test-images/nginx:1.28.0-2"
	NonewprivsRef   = "registry.k8s.io/e2e-test-images/nonewprivs:1.4"
	NonRootRef      = "registry.k8s.io/e2e-test-images/nonroot:1.5"
	GlibcDNSTestRef = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.1.1"
	// IPCUtilsRef has the tools that show shared memory.
	IPCUtilsRef = "registry.k8s.io/e2e-test-images/ipc-utils:1.4"
	// KittenRef has a file to be read from a volume of the image.
	KittenRef = "registry.k8s.io/e2e-test-images/kitten:1.8"
	// SampleDevicePluginRef is a device plugin; the suite's manifests name another
	// version than its list.
	SampleDevicePluginRef = "registry.k8s.io/e2e-test-images/sample-device-plugin:1.8.0"
	// Issue74839Ref injects packets that are out of a connection's window.
	Issue74839Ref = "registry.k8s.io/e2e-test-images/regression-issue-74839:1.5"
	// IptablesRef has the tools of netfilter; the suite runs conntrack from it.
	IptablesRef = "registry.k8s.io/build-image/distroless-iptables:v0.9.9"
)

// Config says whom the package tells what it does.
type Config struct {
	// Progress receives a line per slow step. Nil means silence.
	Progress func(string)
}

// Cluster returns the path of an archive with the images that every cluster needs:
// [PauseRef], [SuitePauseRef] and [CoreDNSRef].
func Cluster(ctx context.Context, cfg Config) (string, error) {
	return archiveOf(ctx, cfg, clusterSet())
}

// Suites returns the path of an archive with the images that the end-to-end suites use
// besides those of [Cluster]. Making it takes two minutes; it needs root.
func Suites(ctx context.Context, cfg Config) (string, error) {
	return archiveOf(ctx, cfg, suitesSet())
}

// ClusterRefs returns the names of the images in the archive of [Cluster].
func ClusterRefs() []string { return clusterSet().refs() }

// SuitesRefs returns the names of the images in the archive of [Suites].
func SuitesRefs() []string { return suitesSet().refs() }

// archiveOf returns the archive of one set, made now if it is not in the cache.
func archiveOf(ctx context.Context, cfg Config, s set) (string, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	archive, err := cachedArchive(ctx, cfg, s)
	if err != nil {
		return "", fmt.Errorf("make the images of the %s: %w", s.name, err)
	}
	return archive, nil
}

func cachedArchive(ctx context.Context, cfg Config, s set) (string, error) {
	repo, err := openRepository(ctx)
	if err != nil {
		return "", err
	}
	recipe, err := s.recipe(ctx, repo)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "images@"+recipe.digest())
	archive := filepath.Join(dir, s.name+".tar")
	if exists(archive) {
		return archive, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := lockFile(filepath.Join(cache, ".images-"+s.name+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if exists(archive) {
		return archive, nil // Somebody else made it while we waited.
	}
	began := time.Now()
	cfg.Progress(fmt.Sprintf("making the images of the %s (once; up to three minutes)", s.name))
	if err := build(ctx, cfg, repo, s, archive); err != nil {
		return "", err
	}
	cfg.Progress(fmt.Sprintf("made the images of the %s in %d s", s.name, int(time.Since(began).Seconds())))
	return archive, os.WriteFile(filepath.Join(dir, s.name+".recipe"), []byte(recipe), 0o644)
}

// build makes the archive in a scratch folder beside it, which a killed run leaves and
// the next one empties, and moves it to its place when it is whole.
func build(ctx context.Context, cfg Config, repo repository, s set, archive string) (err error) {
	scratch := archive + ".build"
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	work := workshop{repo: repo, dir: scratch, cache: filepath.Dir(filepath.Dir(archive)), progress: cfg.Progress}
	layers, err := s.layers(ctx, work)
	if err != nil {
		return err
	}
	whole := filepath.Join(scratch, "archive.tar")
	if err := saveArchive(whole, s.images, layers); err != nil {
		return err
	}
	return os.Rename(whole, archive)
}

// cacheDir is where hack/tool.sh keeps its tools, too.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	return filepath.Join(cache, "nodekit"), nil
}

// lockFile waits for the lock at path and holds it until the file is closed.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
