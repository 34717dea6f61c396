package userns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/userns"
)

func newAllocator(t *testing.T, cfg userns.Config) *userns.Allocator {
	t.Helper()
	a, err := userns.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func get(t *testing.T, a *userns.Allocator, uid types.UID) userns.Range {
	t.Helper()
	r, err := a.Get(uid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPodKeepsItsRange(t *testing.T) {
	cfg := userns.Config{Pods: filepath.Join(t.TempDir(), "pods")}
	a := newAllocator(t, cfg)
	if diff := cmp.Diff(userns.Range{First: 65536, Length: 65536}, get(t, a, "u1")); diff != "" {
		t.Errorf("first range (-want +got):\n%s", diff)
	}
	second := get(t, a, "u2")
	if again := get(t, a, "u2"); again != second {
		t.Errorf("range is %v, then %v", second, again)
	}
	raw, err := os.ReadFile(filepath.Join(cfg.Pods, "u2", "userns"))
	want := `{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`
	if err != nil || string(raw) != want {
		t.Errorf("record is %s (%v), want %s", raw, err, want)
	}
	a = newAllocator(t, cfg) // after a restart
	if again := get(t, a, "u2"); again != second {
		t.Errorf("after a restart the range is %v, want %v", again, second)
	}
	if third := get(t, a, "u3"); third == second || third.First == 65536 {
		t.Errorf("a new pod got %v, which is in use", third)
	}
}

func TestRangesAreGivenBack(t *testing.T) {
	a := newAllocator(t, userns.Config{Pods: t.TempDir(), First: 65536, Length: 3 * 65536})
	for _, uid := range []types.UID{"u1", "u2", "u3"} {
		get(t, a, uid)
	}
	if r, err := a.Get("u4"); err == nil || err.Error() != "get user IDs of pod u4: all 3 ranges are in use" {
		t.Errorf("a fourth pod got %v (%v)", r, err)
	}
	a.Release("u2")
	a.Release("none")
	if r := get(t, a, "u4"); r.First != 2*65536 {
		t.Errorf("a fourth pod got %v, want what u2 gave back", r)
	}
}

// TestNoTwoPodsShareIDs asks from many goroutines at once.
func TestNoTwoPodsShareIDs(t *testing.T) {
	a := newAllocator(t, userns.Config{Pods: t.TempDir()})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint32]types.UID{}
	for i := range 50 {
		wg.Go(func() {
			uid := types.UID(fmt.Sprintf("u%d", i))
			r, err := a.Get(uid)
			mu.Lock()
			defer mu.Unlock()
			if other, taken := seen[r.First]; taken || err != nil {
				t.Errorf("%s got %v (%v), which is %s's", uid, r, err, other)
			}
			seen[r.First] = uid
		})
	}
	wg.Wait()
}

func TestBadRecords(t *testing.T) {
	one := func(host, container, length int) string {
		return fmt.Sprintf(`[{"hostId":%d,"containerId":%d,"length":%d}]`, host, container, length)
	}
	both := func(m string) string { return `{"uidMappings":` + m + `,"gidMappings":` + m + `}` }
	tests := []struct{ name, content, want string }{
		{name: "garbage", content: "{", want: "unexpected EOF"},
		{name: "nothing", content: "{}", want: "want one mapping of users and one of groups"},
		{name: "groups differ", content: `{"uidMappings":` + one(65536, 0, 65536) + `,"gidMappings":` + one(131072, 0, 65536) + `}`, want: "users and groups are mapped differently"},
		{name: "root is the host's", content: both(one(65536, 1, 65536)), want: "the pod's root is not mapped"},
		{name: "IDs of the host", content: both(one(0, 0, 65536)), want: "IDs from 0 on are not among the 4294901760 from 65536 on"},
		{name: "too few", content: both(one(65536, 0, 1000)), want: "1000 IDs from 65536 on are no range of 65536 IDs"},
		{name: "of another pod", content: both(one(131072, 0, 65536)), want: "IDs from 131072 on are those of pod u0, too"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for uid, content := range map[string]string{"u0": both(one(131072, 0, 65536)), "u1": tt.content} {
				if err := os.MkdirAll(filepath.Join(dir, uid), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, uid, "userns"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := userns.New(userns.Config{Pods: dir})
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) || !strings.Contains(err.Error(), filepath.Join(dir, "u1", "userns")) {
				t.Errorf("error is %v, want the file and %q", err, tt.want)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  userns.Config
		want string
	}{
		{name: "nowhere", want: "userns: Config.Pods is empty, want the directory of the pods"},
		{name: "odd size", cfg: userns.Config{Pods: "/p", PerPod: 1000}, want: "userns: Config.PerPod is 1000, want a multiple of 65536"},
		{name: "the host's", cfg: userns.Config{Pods: "/p", Length: 65536}, want: "userns: Config.First is 0, want a multiple of 65536 other than 0"},
		{name: "odd start", cfg: userns.Config{Pods: "/p", First: 100000, Length: 65536}, want: "userns: Config.First is 100000, want a multiple of 65536 other than 0"},
		{name: "none", cfg: userns.Config{Pods: "/p", First: 65536}, want: "userns: Config.Length is 0, want a multiple of 65536 other than 0"},
		{name: "too many", cfg: userns.Config{Pods: "/p", First: 131072, Length: 4294901760}, want: "userns: Config.First is 131072 and Length 4294901760, want no IDs above 4294967295"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := userns.New(tt.cfg); err == nil || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
	a := newAllocator(t, userns.Config{Pods: t.TempDir()})
	if _, err := a.Get("../x"); err == nil {
		t.Error("a UID that leads elsewhere got a range")
	}
}

func FuzzParseSubIDs(f *testing.F) {
	f.Add("0: kubelet 65536 7208960\n")
	f.Add("0: kubelet 1 2\n1: kubelet 3 4\n")
	f.Add("0: kubelet -1 99999999999")
	f.Fuzz(func(t *testing.T, output string) {
		first, length, err := userns.ParseSubIDs([]byte(output))
		if err == nil && len(strings.Fields(output)) != 4 {
			t.Errorf("%q gave %d, %d", output, first, length)
		}
	})
}

// TestFilesBesidePods do not keep an agent from starting.
func TestFilesBesidePods(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	get(t, newAllocator(t, userns.Config{Pods: dir}), "u1")
}
