package csi

import (
	"errors"
	"testing"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

const tells = csiapi.NodeServiceCapability_RPC_GET_VOLUME_STATS

func TestUsage(t *testing.T) {
	w := newWorld(t, stages, tells)
	w.tellPods()
	w.driver.SetUsage("handle-c", []*csiapi.VolumeUsage{
		{Unit: csiapi.VolumeUsage_BYTES, Total: 100, Used: 60, Available: 30}, {Unit: csiapi.VolumeUsage_INODES, Total: 10, Used: 4, Available: 6}, {Total: 5},
	})
	w.claim("c", nil)
	w.setUp(podOf("1", "c"))
	w.setUp(inline("2"))
	got, err := w.p.Usage(t.Context(), "1")
	want := []volume.Usage{{Volume: "data", Bytes: 60, Inodes: 4, Space: volume.Space{Size: 100, Available: 30, Inodes: 10, InodesFree: 6}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("usage (-want +got):\n%s%v", diff, err)
	}
	if got, err := w.p.Usage(t.Context(), "2"); err != nil || len(got) != 1 || got[0].Volume != "data" {
		t.Errorf("usage of a volume that lives with its pod: %+v, %v", got, err)
	}
	if got, err := w.p.Usage(t.Context(), "3"); len(got) != 0 || err != nil {
		t.Errorf("usage of a pod without volumes: %+v, %v", got, err)
	}
	if _, err := w.p.Usage(t.Context(), ".."); err == nil {
		t.Error("a UID that leads elsewhere is taken")
	}
	w.driver.Inject("NodeGetVolumeStats", csitest.Fail(codes.Internal, "broken"), 1)
	got, err = w.p.Usage(t.Context(), "1")
	if failed, ok := errors.AsType[*CallError](err); !ok || failed.Op != "NodeGetVolumeStats" || len(got) != 0 {
		t.Errorf("usage of a driver that fails: %+v, %v", got, err)
	}
	w.p.Deregister(w.driver.Name(), w.driver.Endpoint())
	if got, err := w.p.Usage(t.Context(), "1"); len(got) != 0 || err != nil {
		t.Errorf("usage without the driver: %+v, %v", got, err)
	}
}

func TestUsageIsAskedOnlyOfThoseWhoCanTell(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("c", nil)
	w.setUp(podOf("1", "c"))
	if got, err := w.p.Usage(t.Context(), "1"); len(got) != 0 || err != nil {
		t.Errorf("usage is %+v, %v", got, err)
	}
}
