//go:build linux

package volume_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestAttemptsAreTold has each attempt told with how it ended, also the one that failed.
func TestAttemptsAreTold(t *testing.T) {
	dir := root(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]int{}
		p := &provider{setUp: func(_ context.Context, _ *corev1.Pod, call int) (volume.Mounted, error) {
			if call == 1 {
				return volume.Mounted{}, errors.New("not yet")
			}
			return volume.Mounted{Path: "/mnt"}, nil
		}}
		m := newManager(t, volume.Config{Root: dir, Providers: []volume.Provider{p}, OnAttempt: func(a volume.Attempt) {
			mu.Lock()
			defer mu.Unlock()
			if a.Err != nil {
				a.Plugin += " failed"
			}
			got[a.Plugin]++
		}})
		host := source("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
		if _, err := m.SetUp(t.Context(), pod("1", claim("c"), host)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{"kubernetes.io/csi failed": 1, "kubernetes.io/csi": 1, "kubernetes.io/host-path": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}
