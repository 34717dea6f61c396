//go:build linux

package volume_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestRandomCalls of many goroutines at once: none waits for ever, what SetUp returns is
// there and complete, and at the end nothing is left of any pod.
func TestRandomCalls(t *testing.T) {
	const pods, workers, calls = 4, 8, 60
	var o objects
	o.setConfigMap("conf", map[string]string{"a": "0", "b": "0"})
	dir := root(t)
	m := newManager(t, volume.Config{Root: dir, Objects: &o, Providers: []volume.Provider{&provider{}}})
	run(t, m)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var owners [pods]sync.RWMutex // a pod is not torn down while somebody looks at its volumes
	call := func(r *rand.Rand, n int) {
		uid := r.IntN(pods)
		p := pod(fmt.Sprint(uid), emptyDir("cache"), configMap("conf", "conf"), claim("data"))
		switch r.IntN(6) {
		case 0:
			owners[uid].Lock()
			defer owners[uid].Unlock()
			if err := m.TearDown(t.Context(), p.UID); err != nil || !m.Unmounted(p.UID) {
				t.Errorf("tear down pod %d: %v", uid, err)
			}
		case 1:
			o.setConfigMap("conf", map[string]string{"a": fmt.Sprint(n), "b": fmt.Sprint(n)})
			m.Changed(conf())
		case 2:
			m.Update(p)
		case 3:
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(2000))*time.Microsecond)
			defer cancel()
			owners[uid].RLock()
			defer owners[uid].RUnlock()
			_, _ = m.SetUp(ctx, p) // may be cut off anywhere
		default:
			owners[uid].RLock()
			defer owners[uid].RUnlock()
			mounted, err := m.SetUp(t.Context(), p)
			if err != nil || len(mounted) != 3 {
				t.Errorf("set up pod %d: %v (%v)", uid, mounted, err)
				return
			}
			for _, path := range []string{mounted["cache"].Path, mounted["conf"].Path + "/..data", mounted["conf"].Path + "/b"} {
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("of pod %d: %v", uid, err)
				}
			}
		}
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for n := range calls {
				call(r, n)
			}
		})
	}
	all.Wait()
	for uid := range pods {
		if err := m.TearDown(t.Context(), types.UID(fmt.Sprint(uid))); err != nil || !m.Unmounted(types.UID(fmt.Sprint(uid))) {
			t.Errorf("tear down pod %d: %v", uid, err)
		}
	}
	if err := m.Clean(t.Context(), func(types.UID) bool { return false }); err != nil || len(list(t, dir+"/pods")) > 0 {
		t.Errorf("there is %v (%v)", list(t, dir+"/pods"), err)
	}
}
