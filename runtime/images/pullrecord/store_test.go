package pullrecord

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// world is a Store with its directory.
type world struct {
	*testing.T
	dir   string
	store *Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir()}
	w.restart()
	return w
}

func (w *world) restart() {
	w.Helper()
	store, err := Open(w.dir)
	w.must(err)
	w.store = store
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pull pulls an image with access.
func (w *world) pull(image, id string, by Access) {
	w.Helper()
	w.must(w.store.Begin(image))
	w.must(w.store.Done(image, id, by))
}

// wantAllowed asks for a pod with access under a policy.
func (w *world) wantAllowed(want bool, image, id string, policy Policy, pod Access) {
	w.Helper()
	v, err := NewVerifier(policy, nil)
	w.must(err)
	got, err := w.store.Allows(image, id, v, func() (Access, error) { return pod, nil })
	w.must(err)
	if got != want {
		w.Errorf("use of %s by %+v under %s is %v, want %v", image, pod, policy, got, want)
	}
}

// files are the names of files in a folder without their hash.
func (w *world) files(folder string) int {
	w.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, folder))
	w.must(err)
	return len(entries)
}

var (
	mine   = Access{Secrets: []Secret{sec("mine", "1")}}
	theirs = Access{Secrets: []Secret{sec("theirs", "2")}}
)

func TestPrivateImageStaysPrivate(t *testing.T) {
	w := newWorld(t)
	w.pull("reg.example/web:1", "sha256:1", mine)
	for range 2 {
		w.wantAllowed(true, "reg.example/web:1", "sha256:1", "", mine)
		w.wantAllowed(true, "reg.example/web@sha256:"+strings.Repeat("0", 64), "sha256:1", "", mine)
		w.wantAllowed(false, "reg.example/web:1", "sha256:1", "", theirs)
		w.wantAllowed(false, "reg.example/web:1", "sha256:1", "", Access{})
		w.wantAllowed(false, "mirror.example/web:1", "sha256:1", "", mine)
		w.wantAllowed(true, "reg.example/web:1", "sha256:1", NeverVerify, theirs)
		w.restart()
	}
	w.pull("reg.example/web:1", "sha256:1", theirs)
	w.wantAllowed(true, "reg.example/web:1", "sha256:1", "", mine)
	w.wantAllowed(true, "reg.example/web:1", "sha256:1", "", theirs)
	w.pull("reg.example/web:1", "sha256:1", Access{Everybody: true})
	w.wantAllowed(true, "reg.example/web:1", "sha256:1", AlwaysVerify, Access{})
	if n := w.files("pulling"); n != 0 {
		t.Errorf("%d pulls are on record as begun", n)
	}
}

func TestImagesThatWereThereBefore(t *testing.T) {
	w := newWorld(t)
	w.wantAllowed(true, "web", "sha256:1", "", Access{})
	w.wantAllowed(false, "web", "sha256:1", AlwaysVerify, mine)
	w.must(w.store.Begin("web"))
	w.wantAllowed(false, "web", "sha256:1", "", mine)
	w.must(w.store.Begin("web"))
	w.must(w.store.Abandon("web"))
	w.wantAllowed(false, "web", "sha256:1", "", mine)
	w.must(w.store.Abandon("web"))
	w.wantAllowed(true, "web", "sha256:1", "", Access{})
}

// An image that came by a pull whose end nobody saw is not one that was there before.
func TestCrashDuringPull(t *testing.T) {
	w := newWorld(t)
	for _, image := range []string{"web:1", "reg.example/a@sha256:" + strings.Repeat("0", 64), "absent"} {
		w.must(w.store.Begin(image))
	}
	w.restart()
	w.wantAllowed(false, "web:1", "sha256:web", "", mine)
	for range 2 { // a second recovery finds nothing more to do
		w.must(w.store.Recover([]Image{
			{ID: "sha256:web", Names: []string{"docker.io/library/web:1"}},
			{ID: "sha256:a", Names: []string{"reg.example/a:1", "reg.example/a@sha256:" + strings.Repeat("0", 64)}},
			{ID: "sha256:other", Names: []string{"docker.io/library/web:2"}},
		}))
		w.wantAllowed(false, "web:1", "sha256:web", "", mine)
		w.wantAllowed(false, "reg.example/a@sha256:"+strings.Repeat("0", 64), "sha256:a", "", mine)
		w.wantAllowed(true, "web:2", "sha256:other", "", mine)
		// It may still arrive.
		w.wantAllowed(false, "absent", "sha256:late", "", mine)
		if pulling, pulled := w.files("pulling"), w.files("pulled"); pulling != 1 || pulled != 2 {
			t.Errorf("%d pulls begun and %d done are on record, want 1 and 2", pulling, pulled)
		}
		w.restart()
	}
	w.pull("web:1", "sha256:web", mine)
	w.wantAllowed(true, "web:1", "sha256:web", "", mine)
}

func TestUnreadableRecordAllowsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
	}{
		{"empty", ""},
		{"cut off", `{"kind":"ImagePulledRecord"`},
		{"another kind", `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"web"}`},
		{"a later version", `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v9","imageRef":"sha256:1","credentialMapping":{"web":{"nodePodsAccessible":true}}}`},
		{"unknown field", `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"sha256:1","until":"x","credentialMapping":{"web":{"nodePodsAccessible":true}}}`},
		{"another image", `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"sha256:2","credentialMapping":{"web":{"nodePodsAccessible":true}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(os.WriteFile(w.store.pulled.path("sha256:1"), []byte(c.text), 0o600))
			ok, err := w.store.Allows("web", "sha256:1", Verifier{}, func() (Access, error) { return mine, nil })
			if ok || err == nil {
				t.Errorf("Allows gives %v, %v, want an error", ok, err)
			}
			w.pull("web", "sha256:1", mine)
			w.wantAllowed(true, "web", "sha256:1", "", mine)
		})
	}
}

func TestHugeFileIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", Access{Everybody: true})
	w.must(os.Truncate(w.store.pulled.path("sha256:1"), maxFile+1))
	if ok, err := w.store.Allows("web", "sha256:1", Verifier{}, nil); ok || err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("Allows gives %v, %v, want an error about the size", ok, err)
	}
}

// A file of the kubelet of Kubernetes 1.35 or later.
func TestRecordsOfTheKubelet(t *testing.T) {
	w := newWorld(t)
	const text = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-03-01T10:00:00Z","imageRef":"sha256:1","credentialMapping":{"reg.example/web":{"kubernetesSecrets":[{"uid":"uid-mine","namespace":"ns","name":"mine","credentialHash":"1"}]}}}` + "\n"
	path := w.store.pulled.path("sha256:1")
	w.must(os.WriteFile(path, []byte(text), 0o600))
	w.wantAllowed(true, "reg.example/web:2", "sha256:1", "", mine)
	w.wantAllowed(false, "reg.example/web:2", "sha256:1", "", theirs)
	// Ours are the same but for the time.
	w.pull("reg.example/web", "sha256:2", mine)
	data, err := os.ReadFile(w.store.pulled.path("sha256:2"))
	w.must(err)
	r, err := decodeRecord(data)
	w.must(err)
	got := strings.Replace(string(data), r.LastUpdated.Format(time.RFC3339), "2026-03-01T10:00:00Z", 1)
	if diff := cmp.Diff(strings.Replace(text, "sha256:1", "sha256:2", 1), got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestOlderVersionIsRenewed(t *testing.T) {
	w := newWorld(t)
	path := w.store.pulled.path("sha256:1")
	w.must(os.WriteFile(path, []byte(`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","lastUpdatedTime":null,"imageRef":"sha256:1","credentialMapping":{"web":{"kubernetesSecrets":[{"uid":"uid-mine","namespace":"ns","name":"mine","credentialHash":"1"}]}}}`), 0o600))
	w.wantAllowed(true, "web", "sha256:1", "", mine)
	w.pull("web", "sha256:1", theirs)
	data, err := os.ReadFile(path)
	w.must(err)
	if !strings.Contains(string(data), `"kubelet.config.k8s.io/v1beta1"`) {
		t.Errorf("record is %s, want the newer version", data)
	}
	w.wantAllowed(true, "web", "sha256:1", "", mine)
	w.wantAllowed(true, "web", "sha256:1", "", theirs)
}

// A pull that teaches nothing leaves the file alone.
func TestKnownAccessIsNotWritten(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", mine)
	before, err := os.Stat(w.store.pulled.path("sha256:1"))
	w.must(err)
	w.pull("web", "sha256:1", mine)
	after, err := os.Stat(w.store.pulled.path("sha256:1"))
	w.must(err)
	if !os.SameFile(before, after) {
		t.Error("the record was written again")
	}
}

func TestBadNames(t *testing.T) {
	w := newWorld(t)
	if ok, err := w.store.Allows("Web:", "sha256:1", Verifier{}, nil); ok || err == nil {
		t.Errorf("Allows gives %v, %v, want an error", ok, err)
	}
	w.must(w.store.Begin("Web:"))
	if err := w.store.Done("Web:", "sha256:1", mine); err == nil {
		t.Error("Done accepts a bad name")
	}
}

func TestNamesOfFiles(t *testing.T) {
	const want = "x/sha256-8724d338e126049234c1d85057d87a9e9991a703bb402e390abba5dc99f26361"
	if got := folder("x").path("web:1"); got != want {
		t.Errorf("path is %s, want %s", got, want)
	}
}

func TestRotatedSecretIsLearned(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", mine)
	rotated := Access{Secrets: []Secret{sec("mine", "new")}}
	copied := Access{Secrets: []Secret{sec("copy", "new")}}
	w.wantAllowed(false, "web", "sha256:1", "", copied)
	w.wantAllowed(true, "web", "sha256:1", "", rotated)
	w.wantAllowed(true, "web", "sha256:1", "", copied)
}

func TestCredentialsAreAskedForWhenNeeded(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", Access{Everybody: true})
	w.pull("db", "sha256:2", mine)
	w.pull("lost", "sha256:3", Access{})
	boom := errors.New("boom")
	asked := 0
	access := func() (Access, error) { asked++; return Access{}, boom }
	if ok, err := w.store.Allows("web", "sha256:1", Verifier{}, access); !ok || err != nil || asked != 0 {
		t.Errorf("Allows gives %v, %v after %d questions", ok, err, asked)
	}
	if ok, err := w.store.Allows("lost", "sha256:3", Verifier{}, access); ok || err != nil || asked != 0 {
		t.Errorf("Allows gives %v, %v after %d questions", ok, err, asked)
	}
	if ok, err := w.store.Allows("db", "sha256:2", Verifier{}, access); ok || !errors.Is(err, boom) || asked != 1 {
		t.Errorf("Allows gives %v, %v after %d questions, want the error after one", ok, err, asked)
	}
}

func TestPrune(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", mine)
	w.pull("db", "sha256:2", mine)
	w.must(w.store.Prune([]string{"sha256:1"}, time.Now().Add(-time.Minute)))
	if n := w.files("pulled"); n != 2 {
		t.Errorf("%d records, want 2: they are newer than the list", n)
	}
	w.must(os.WriteFile(w.store.pulled.path("broken"), nil, 0o600))
	if err := w.store.Prune([]string{"sha256:1"}, time.Now().Add(time.Minute)); err == nil {
		t.Error("a broken record is no error")
	}
	if n := w.files("pulled"); n != 2 {
		t.Errorf("%d records, want that of the image that is there, and the broken one", n)
	}
	w.wantAllowed(true, "web", "sha256:1", AlwaysVerify, mine)
}

// What others put there is left alone.
func TestForeignFiles(t *testing.T) {
	w := newWorld(t)
	w.pull("web", "sha256:1", mine)
	for _, folder := range []string{"pulling", "pulled"} {
		w.must(os.WriteFile(filepath.Join(w.dir, folder, "README"), nil, 0o600))
		w.must(os.WriteFile(filepath.Join(w.dir, folder, "sha256-0.tmp"), nil, 0o600))
		w.must(os.Mkdir(filepath.Join(w.dir, folder, "sha256-0"), 0o700))
	}
	w.must(w.store.Recover(nil))
	w.must(w.store.Prune(nil, time.Now().Add(time.Minute)))
	if pulling, pulled := w.files("pulling"), w.files("pulled"); pulling != 3 || pulled != 3 {
		t.Errorf("%d and %d files are left, want the 3 foreign ones each", pulling, pulled)
	}
}

func TestFailedWriteKeepsTheIntent(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.Begin("web"))
	w.must(os.RemoveAll(filepath.Join(w.dir, "pulled")))
	if err := w.store.Done("web", "sha256:1", mine); err == nil {
		t.Fatal("Done succeeds without its directory")
	}
	w.restart()
	w.wantAllowed(false, "web", "sha256:1", "", Access{})
	w.pull("web", "sha256:1", mine)
	w.wantAllowed(true, "web", "sha256:1", "", mine)
	if n := w.files("pulling"); n != 0 {
		t.Errorf("%d pulls are on record as begun", n)
	}
	w.must(os.RemoveAll(w.dir))
	if err := w.store.Begin("web"); err == nil {
		t.Error("Begin succeeds without its directory")
	}
}

func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			access := Access{Secrets: []Secret{sec(string(rune('a'+i)), "hash")}}
			for range 4 {
				w.pull("web", "sha256:1", access)
				w.wantAllowed(true, "web", "sha256:1", "", access)
			}
		})
	}
	wg.Wait()
	if n := w.files("pulling"); n != 0 {
		t.Errorf("%d pulls are on record as begun", n)
	}
	r, err := w.store.readLocked("sha256:1")
	w.must(err)
	if n := len(r.Credentials["web"].Secrets); n != 16 {
		t.Errorf("%d secrets are on record, want 16", n)
	}
}

// A pull that fails says nothing about an earlier one whose end nobody saw.
func TestFailureAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.Begin("web"))
	w.restart()
	w.must(w.store.Begin("web"))
	w.must(w.store.Abandon("web"))
	w.wantAllowed(false, "web", "sha256:late", "", Access{})
	w.pull("web", "sha256:late", mine)
	w.must(w.store.Begin("web"))
	w.must(w.store.Abandon("web"))
	if n := w.files("pulling"); n != 0 {
		t.Errorf("%d pulls are on record as begun", n)
	}
}

// A pull whose end was not seen may have brought the image, whatever later pulls that fail
// say; one that brings it counts.
func TestCutOff(t *testing.T) {
	w := newWorld(t)
	for _, end := range []func(string) error{w.store.CutOff, w.store.Abandon} {
		w.must(w.store.Begin("web"))
		w.must(end("web"))
		w.wantAllowed(false, "web", "sha256:late", "", mine)
	}
	w.restart()
	w.wantAllowed(false, "web", "sha256:late", "", mine)
	w.pull("web", "sha256:late", mine)
	w.wantAllowed(true, "web", "sha256:late", "", mine)
	w.wantAllowed(false, "web", "sha256:late", "", theirs)
	if n := w.files("pulling"); n != 0 {
		t.Errorf("%d pulls are on record as begun", n)
	}
}

// A name written in another way is no way round a pull that has begun.
func TestNamesOfOneImage(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for begun, names := range map[string][]string{
		"web":                {"web:latest", "docker.io/library/web", "docker.io/library/web:latest"},
		"reg.example/web:1":  {"reg.example/web:1"},
		"library/web:1":      {"web:1", "docker.io/web:1"},
		"web:1" + digest:     {"web" + digest, "docker.io/library/web:2" + digest},
		"docker.io/team/web": {"team/web"},
	} {
		w := newWorld(t)
		w.must(os.WriteFile(filepath.Join(w.dir, "pulling", "sha256-foreign"), []byte("{"), 0o600))
		w.must(w.store.Begin(begun))
		for _, name := range names {
			w.wantAllowed(false, name, "sha256:1", "", mine)
		}
		w.wantAllowed(true, "other", "sha256:2", "", mine)
		w.wantAllowed(true, "web:3", "sha256:3", "", mine)
		w.must(w.store.CutOff(begun))
		w.restart()
		for _, name := range names {
			w.wantAllowed(false, name, "sha256:1", "", mine)
		}
		w.must(w.store.Begin(begun))
		w.must(w.store.Done(begun, "sha256:1", Access{Everybody: true}))
		w.wantAllowed(true, begun, "sha256:1", "", Access{})
	}
}

// What became of pulls that were cut off is found out without a restart.
func TestCutOffIsSettled(t *testing.T) {
	w := newWorld(t)
	for _, image := range []string{"came", "fresh", "old", "again"} {
		w.must(w.store.Begin(image))
		w.must(w.store.CutOff(image))
		if image != "fresh" {
			dayAgo := time.Now().Add(-settleAfter - time.Minute)
			w.must(os.Chtimes(w.store.pulling.path(image), dayAgo, dayAgo))
		}
	}
	w.must(w.store.Begin("again"))
	w.must(w.store.Recover([]Image{{ID: "sha256:came", Names: []string{"docker.io/library/came:latest"}}}))
	w.wantAllowed(false, "came", "sha256:came", "", mine)
	w.wantAllowed(false, "docker.io/library/came:latest", "sha256:came", "", mine)
	w.wantAllowed(false, "fresh", "sha256:fresh", "", mine)
	w.wantAllowed(true, "old", "sha256:old", "", mine)
	w.wantAllowed(false, "again", "sha256:again", "", mine)
	if n := w.files("pulling"); n != 2 {
		t.Errorf("%d pulls are on record as begun, want fresh and again", n)
	}
}

func TestEndWithoutBegin(t *testing.T) {
	w := newWorld(t)
	if err := w.store.Abandon("web"); err == nil {
		t.Error("Abandon succeeds without Begin")
	}
	if err := w.store.CutOff("web"); err == nil {
		t.Error("CutOff succeeds without Begin")
	}
	if err := w.store.Done("web", "sha256:1", mine); err == nil {
		t.Error("Done succeeds without Begin")
	}
	w.wantAllowed(true, "web", "sha256:1", "", Access{})
}

// Whatever pulls begin, end and are cut off by crashes: a pod may use an image exactly
// if it needs no credentials, if the pod's were used for it, or if no pull can have
// brought it.
func TestRandomPullsAndCrashes(t *testing.T) {
	const pods = 3
	names := []string{"web:1", "reg.example/db"}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: t, dir: t.TempDir()}
		w.restart()
		m := newModel(names)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			image := rapid.SampledFrom(names).Draw(rt, "image")
			pod := rapid.IntRange(0, pods-1).Draw(rt, "pod")
			step := rapid.SampledFrom([]string{"begin", "begin", "done", "abandon", "cut off", "public", "crash"}).Draw(rt, "step")
			m.step(w, step, image, pod)
			for _, image := range names {
				for pod := range pods {
					got, err := w.store.Allows(image, "id of "+image, Verifier{}, func() (Access, error) { return accessOf(pod), nil })
					if want := m.allowed(image, pod); err != nil || got != want {
						rt.Fatalf("after %s of %s by pod %d, use of %s by pod %d is %v, %v, want %v", step, image, pod, image, pod, got, err, want)
					}
				}
			}
		}
	})
}

func accessOf(pod int) Access {
	name := string(rune('a' + pod))
	return Access{Secrets: []Secret{sec(name, "hash of "+name)}}
}

// model is what a Store should know, by image.
type model map[string]*struct {
	active    int
	uncertain bool
	pulled    bool
	public    bool
	pods      map[int]bool
}

func newModel(names []string) model {
	m := model{}
	for _, name := range names {
		m[name] = &struct {
			active    int
			uncertain bool
			pulled    bool
			public    bool
			pods      map[int]bool
		}{pods: map[int]bool{}}
	}
	return m
}

func (m model) allowed(image string, pod int) bool {
	i := m[image]
	return i.public || i.pods[pod] || !i.pulled && i.active == 0 && !i.uncertain
}

func (m model) step(w *world, step, image string, pod int) {
	w.Helper()
	i := m[image]
	switch {
	case step == "crash":
		w.restart()
		for _, i := range m {
			i.uncertain = i.uncertain || i.active > 0
			i.active = 0
		}
	case step == "begin":
		w.must(w.store.Begin(image))
		i.active++
	case i.active == 0:
	case step == "cut off":
		w.must(w.store.CutOff(image))
		i.active--
		i.uncertain = true
	case step == "abandon":
		w.must(w.store.Abandon(image))
		i.active--
	default:
		access := accessOf(pod)
		if step == "public" {
			access = Access{Everybody: true}
			i.public = true
		}
		w.must(w.store.Done(image, "id of "+image, access))
		i.active--
		i.pulled, i.uncertain, i.pods[pod] = true, false, true
	}
}
