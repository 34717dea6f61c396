package devices

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
)

// TestRunningContainersKeepTheirDevices ends the process and begins another, with the
// container still running and the plugin not yet back.
func TestRunningContainersKeepTheirDevices(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		pod := newPod("pod", "app=1")
		w.mustAdmit(pod)
		kill()
		w.restart("pod/app")
		w.want("devices", w.has(pod, "app"), "a")
		w.want("health", w.healthOf(pod, "app"), "a Unknown")
		w.want("allocatable", w.counts(gpu), "0/0")
		w.mustAdmit(pod)
		env, err := w.begin(pod, "app")
		w.want("a container that ran is told for its next run", env+text(err), "a")

		p, _ := w.plug(devicestest.Config{}, "a", "b")
		w.want("health with its plugin", w.healthOf(pod, "app"), "a Healthy")
		other := newPod("other", "app=1")
		w.mustAdmit(other)
		w.want("devices of another pod", w.has(other, "app"), "b")
		if n := len(p.Calls("Allocate")); n != 1 {
			t.Errorf("the plugin was asked %d times, want once, for the other pod", n)
		}
	})
}

// TestAfterAReboot no container runs: a pod that had devices waits until its plugin is
// back, and a new one does, too.
func TestAfterAReboot(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		pod, late := newPod("pod", "app=1"), newPod("late", "app=1")
		w.mustAdmit(pod)
		kill()
		w.restart()
		const missing = "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"
		w.wantErr(w.admit(pod), true, missing)
		w.wantErr(w.admit(late), true, missing)
		_, err := w.begin(pod, "app")
		w.wantErr(err, true, "no device plugin of example.com/gpu has registered yet")
		w.plug(devicestest.Config{}, "a", "b")
		w.mustAdmit(late)
		w.mustAdmit(pod)
		env, err := w.begin(pod, "app")
		w.want("the container is told", env+text(err), "a")
		w.want("devices of the late pod", w.has(late, "app"), "b")
	})
}

// TestPluginThatDoesNotComeBack is waited for five minutes; then pods are refused as by a
// kubelet.
func TestPluginThatDoesNotComeBack(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a")
		kill()
		w.restart()
		pod := newPod("pod", "app=1")
		w.wantErr(w.admit(pod), true, "no healthy devices present; cannot allocate unhealthy devices example.com/gpu")
		pass(6 * time.Minute)
		w.wantErr(w.admit(pod), false, "cannot allocate unregistered device example.com/gpu")
		w.want("allocatable", w.counts(gpu), "0/0")
	})
}

// TestPluginThatComesBackWithoutTheDevice has the device of a pod be broken after the
// reboot: the pod cannot have it, and is refused.
func TestPluginThatComesBackWithoutTheDevice(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		pod := newPod("pod", "app=1")
		w.mustAdmit(pod)
		kill()
		w.restart()
		w.plug(devicestest.Config{}, "a!", "b")
		w.wantErr(w.admit(pod), false, "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu")
	})
}

// TestPodsThatWentMeanwhile give their devices back once it is known which pods there are.
func TestPodsThatWentMeanwhile(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		stays, goes := newPod("stays", "app=1"), newPod("goes", "app=1")
		w.mustAdmit(stays)
		w.mustAdmit(goes)
		kill()
		w.restart("stays/app")
		w.plug(devicestest.Config{}, "a", "b")
		late := newPod("late", "app=1")
		w.wantErr(w.admit(late), true, "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0")
		w.Retain(func(uid types.UID) bool { return uid == stays.UID })
		w.mustAdmit(late)
		w.want("devices", w.has(stays, "app")+" "+w.has(late, "app"), "a b")
		pass(time.Second)
		w.restart("stays/app", "late/app")
		w.want("devices in the next process", w.has(stays, "app")+" "+w.has(late, "app")+" "+w.has(goes, "app"), "a b ")
	})
}

// TestLostCheckpoint has a container be started again of whose devices nothing is known:
// it gets others.
func TestLostCheckpoint(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		pod := newPod("pod", "app=1")
		w.mustAdmit(pod)
		kill()
		w.file.raw = nil
		w.restart("pod/app")
		w.want("allocatable", w.counts(gpu), "none")
		p, _ := w.plug(devicestest.Config{}, "b", "c")
		w.mustAdmit(pod)
		w.want("devices while it runs", w.has(pod, "app"), "")
		env, err := w.begin(pod, "app")
		w.want("the container is told for its next run", env+text(err), "b")
		if n := len(p.Calls("Allocate")); n != 1 {
			t.Errorf("the plugin was asked %d times, want once", n)
		}
	})
}

// TestNobodyKnowsTheResourceYet has a manifest ask for what no plugin has registered ever.
func TestNobodyKnowsTheResourceYet(t *testing.T) {
	expected := func(pod *corev1.Pod, name corev1.ResourceName) bool { return pod.Name == "pod" && name == gpu }
	bubble(t, Config{Expected: expected}, func(w *world) {
		pod := newPod("pod", "app=1")
		w.wantErr(w.admit(pod), true, "cannot allocate unregistered device example.com/gpu")
		w.plug(devicestest.Config{}, "a")
		w.mustAdmit(pod)
		w.want("devices", w.has(pod, "app"), "a")
	})
}

// TestDiskThatFails keeps pods from starting, as nobody would know of their devices after
// a restart, and is tried again.
func TestDiskThatFails(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a", "b")
		pass(time.Second)
		full := errors.New("no space left on device")
		w.file.fail(full)
		pod := newPod("pod", "app=1")
		if err := w.admit(pod); !errors.Is(err, full) {
			t.Errorf("error is %v, want that of the disk", err)
		}
		w.file.fail(nil)
		w.mustAdmit(pod)
		if n := len(p.Calls("Allocate")); n != 1 {
			t.Errorf("the plugin was asked %d times, want once", n)
		}
		w.restart("pod/app")
		w.want("devices in the next process", w.has(pod, "app"), "a")
		w.file.fail(full)
		w.Release(pod.UID)
		pass(time.Minute)
		w.file.fail(nil)
		pass(time.Minute)
		w.restart()
		w.want("devices in the one after", w.has(pod, "app"), "")
	})
}

// TestWhatIsOnDiskBeforeAPodStarts is what the next process goes on with, at whatever
// point this one is killed.
func TestWhatIsOnDiskBeforeAPodStarts(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.plug(devicestest.Config{}, "a", "b")
		pod := newPod("pod", "app=2")
		w.mustAdmit(pod)
		data, err := parseCheckpoint(w.file.raw) // as a process that is killed now leaves it
		if err != nil {
			t.Fatal(err)
		}
		want := checkpointData{
			PodDeviceEntries: []checkpointEntry{{
				PodUID: "pod", ContainerName: "app", ResourceName: gpu, DeviceIDs: map[int64][]string{-1: {"a", "b"}},
				AllocResp: []byte("\n\x0e\n\aDEVICES\x12\x03a,b"),
			}},
			RegisteredDevices: map[string][]string{gpu: {"a", "b"}},
		}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Errorf("the checkpoint (-want +got):\n%s", diff)
		}
	})
}
