package support_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestKernelVolumeFields takes each field of volumes away, and looks for a difference in
// the files that a Manager makes.
func TestKernelVolumeFields(t *testing.T) {
	needsMounts(t)
	places := map[string]bool{}
	for _, pod := range specimens[corev1.Pod](t, "volumes.yaml") {
		if found := problems(pod); len(found) > 0 {
			t.Errorf("%s: %v", pod.Name, found)
		}
		base := setUp(t, pod)
		if strings.Contains(base, "error") {
			t.Fatalf("%s: %s", pod.Name, base)
		}
		if again := setUp(t, pod); again != base {
			t.Fatalf("%s differs from itself:\n%s\n%s", pod.Name, base, again)
		}
		for n, f := range set(reflect.ValueOf(&pod.Spec).Elem(), "spec") {
			if !strings.HasPrefix(f.path, "spec.volumes") && !strings.HasPrefix(f.path, "spec.securityContext") {
				continue
			}
			place := f.key + " at " + index.ReplaceAllString(f.path, "")
			places[place] = places[place] || setUp(t, without(pod, n)) != base
		}
	}
	seen := map[string]bool{}
	for place, differs := range places {
		key, _, _ := strings.Cut(place, " ")
		seen[key] = true
		if !differs {
			t.Errorf("%s changes nothing: it is ignored in silence", place)
		}
	}
	for _, key := range volumeFields {
		if !seen[key] {
			t.Errorf("%s is in no volume of testdata/volumes.yaml", key)
		}
	}
}

// setUp returns the files of the volumes of a pod as text, or why there are none.
func setUp(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dir := t.TempDir()
	pod = pod.DeepCopy()
	for i := range pod.Spec.Volumes {
		if h := pod.Spec.Volumes[i].HostPath; h != nil {
			h.Path = strings.ReplaceAll(h.Path, "DIR", dir)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := volume.New(volume.Config{
		Root: filepath.Join(dir, "root"), Objects: namespace{}, Tokens: issuer{}, Bundles: anchors{},
		OnAttempt: func(a volume.Attempt) {
			if a.Err != nil {
				cancel() // it would try again for minutes
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mounted, err := m.SetUp(ctx, pod)
	out := fmt.Sprintf("error: %v", err)
	if err == nil {
		out = listing(t, mounted)
	}
	if err := m.TearDown(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out, dir, "DIR")
}

// listing describes all files of volumes: with modes, owners, contents, and the size of
// their file systems in memory.
func listing(t *testing.T, volumes map[string]volume.Mounted) string {
	t.Helper()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		var space syscall.Statfs_t
		if err := syscall.Statfs(v.Path, &space); err != nil {
			fmt.Fprintf(&out, "%s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(&out, "%s at %s, %x", name, v.Path, space.Type)
		if space.Type == tmpfs {
			fmt.Fprintf(&out, " of %d", space.Blocks)
		}
		out.WriteByte('\n')
		err := filepath.WalkDir(v.Path, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(path) // the names of files are links
			if err != nil {
				return err
			}
			owner := info.Sys().(*syscall.Stat_t)
			fmt.Fprintf(&out, "%s %s %d:%d", path, info.Mode(), owner.Uid, owner.Gid)
			if info.Mode().IsRegular() {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&out, " %q", content)
			}
			out.WriteByte('\n')
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return stamp.ReplaceAllString(out.String(), "..now")
}

// tmpfs is TMPFS_MAGIC of linux/magic.h.
const tmpfs = 0x01021994

// stamp is the name of the directory that holds the files of a volume.
var stamp = regexp.MustCompile(`\.\.20\d\d_[0-9_.]+`)

// namespace has the objects of things, and nothing else.
type namespace struct{}

func (namespace) ConfigMap(_ context.Context, pod *corev1.Pod, name string) (*corev1.ConfigMap, error) {
	return things{}.ConfigMap(pod.Namespace, name)
}

func (namespace) Secret(_ context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error) {
	return things{}.Secret(pod.Namespace, name)
}

// issuer writes what it was asked for into tokens.
type issuer struct{}

func (issuer) Token(_ context.Context, _ *corev1.Pod, s *corev1.ServiceAccountTokenProjection) ([]byte, time.Time, error) {
	seconds := int64(0)
	if s.ExpirationSeconds != nil {
		seconds = *s.ExpirationSeconds
	}
	return fmt.Appendf(nil, "for %s, %d s", s.Audience, seconds), time.Time{}, nil
}

// anchors has a bundle root, and one of the signer for each selector.
type anchors struct{}

func (anchors) TrustBundles(_ context.Context, s *corev1.ClusterTrustBundleProjection) ([]string, error) {
	content := "none"
	switch {
	case s.Name != nil && *s.Name == "root":
		content = "root"
	case s.Name != nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, *s.Name)
	case s.SignerName != nil:
		content = *s.SignerName + fmt.Sprint(s.LabelSelector)
	}
	return []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))}, nil
}
