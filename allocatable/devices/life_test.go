package devices

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// wantErr compares an error of Allocate or Container with the begin of its text.
func (w *world) wantErr(err error, again bool, want string) {
	w.Helper()
	var e *UnavailableError
	if !errors.As(err, &e) || e.NotYet() != again || !strings.HasPrefix(e.Error(), want) {
		w.Errorf("error is %v, to be tried again: %t, want %q, %t", err, e != nil && e.NotYet(), want, again)
	}
}

func (w *world) want(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestPodGetsDevicesUntilItEnds(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a", "b", "c!")
		w.want("allocatable of all", w.counts(gpu), "2/3")
		first, second := newPod("first", "app=1"), newPod("second", "app=2")
		w.mustAdmit(first)
		env, err := w.begin(first, "app")
		w.want("what the container is told", env+text(err), "a")
		w.want("allocatable of all, whoever has them", w.counts(gpu), "2/3")
		w.wantErr(w.admit(second), true, "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1")
		w.Release(first.UID)
		w.mustAdmit(second)
		w.want("devices of the second pod", w.has(second, "app"), "a,b")
		w.wantErr(w.admit(newPod("third", "app=3")), false, "requested number of devices unavailable for example.com/gpu. Requested: 3, Available: 0")
		if diff := cmp.Diff([]devicestest.Call{{RPC: "Allocate", IDs: []string{"a"}}, {RPC: "Allocate", IDs: []string{"a", "b"}}}, p.Calls("Allocate")); diff != "" {
			t.Errorf("what the plugin was asked (-want +got):\n%s", diff)
		}
		// Again: nobody is asked anew.
		w.mustAdmit(second)
		w.wantErr(w.admit(newPod("second", "app=1")), false, `pod "second" container "app" changed request for resource "example.com/gpu" from 2 to 1`)
		if n := len(p.Calls("Allocate")); n != 2 {
			t.Errorf("the plugin was asked %d times, want 2", n)
		}
	})
}

// TestInitContainersLeaveTheirDevices has init containers, a sidecar between them, and
// regular containers ask for devices of which there are just enough.
func TestInitContainersLeaveTheirDevices(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.plug(devicestest.Config{}, "a", "b", "c", "d")
		pod := newPod("pod", "i:one=2", "s:side=1", "i:two=1", "app=1", "more=2")
		w.mustAdmit(pod)
		got := map[string]string{}
		for _, c := range containersOf(pod) {
			got[c.Name] = w.has(pod, c.Name)
		}
		// The sidecar takes over one of the first, which others must not have then.
		want := map[string]string{"one": "a,b", "side": "a", "two": "b", "app": "b", "more": "c,d"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		w.wantErr(w.admit(newPod("other", "app=1")), true, "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0")
		w.Release(pod.UID)
		w.mustAdmit(newPod("other", "app=4"))
	})
}

func TestPluginPrefers(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		last := func(available, must []string, size int) []string {
			return slices.Concat(must, available[len(available)-size+len(must):])
		}
		p, _ := w.plug(devicestest.Config{Prefer: last}, "a", "b", "c")
		pod := newPod("pod", "app=2")
		w.mustAdmit(pod)
		w.want("devices", w.has(pod, "app"), "b,c")
		want := []devicestest.Call{{RPC: "GetPreferredAllocation", IDs: []string{"a", "b", "c"}}, {RPC: "Allocate", IDs: []string{"b", "c"}}}
		if diff := cmp.Diff(want, p.Calls("GetPreferredAllocation", "Allocate")); diff != "" {
			t.Errorf("what the plugin was asked (-want +got):\n%s", diff)
		}
	})
}

// TestPreferencesCostNoDevices has a plugin prefer others than those that containers of
// one pod were to share: they share what it prefers.
func TestPreferencesCostNoDevices(t *testing.T) {
	last := func(available, must []string, size int) []string {
		return slices.Concat(must, available[len(available)-size+len(must):])
	}
	for _, tt := range []struct {
		name    string
		pod     []string
		devices []string
		want    map[string]string
	}{
		{"init container and app", []string{"i:init=1", "app=1"}, []string{"a", "b"}, map[string]string{"init": "b", "app": "b"}},
		{"app needs more", []string{"i:init=1", "app=2"}, []string{"a", "b", "c"}, map[string]string{"init": "c", "app": "a,c"}},
		{"two apps", []string{"i:init=2", "app=1", "more=1"}, []string{"a", "b", "c"}, map[string]string{"init": "b,c", "app": "c", "more": "b"}},
		{
			"a sidecar between",
			[]string{"i:init=1", "s:side=1", "i:two=1", "app=1"},
			[]string{"a", "b", "c"},
			map[string]string{"init": "c", "side": "c", "two": "b", "app": "b"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{}, func(w *world) {
				w.plug(devicestest.Config{Prefer: last}, tt.devices...)
				pod := newPod("pod", tt.pod...)
				w.mustAdmit(pod)
				got := map[string]string{}
				for _, c := range containersOf(pod) {
					got[c.Name] = w.has(pod, c.Name)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
				w.mustAdmit(newPod("other", "app=1"))
			})
		})
	}
}

func TestHealthOfDevices(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, kill := w.plug(devicestest.Config{}, "a", "b")
		pod, idle := newPod("pod", "app=1"), newPod("idle", "app=1")
		w.mustAdmit(pod)
		w.mustAdmit(idle)
		w.told()
		w.want("health at first", w.healthOf(pod, "app"), "a Healthy")
		p.List(listing("a!", "b")...)
		synctest.Wait()
		w.want("health then", w.healthOf(pod, "app"), "a Unhealthy")
		w.want("allocatable", w.counts(gpu), "1/2")
		if diff := cmp.Diff([]types.UID{"pod"}, w.told()); diff != "" {
			t.Errorf("pods that were told of (-want +got):\n%s", diff)
		}
		p.List(listing("b")...)
		synctest.Wait()
		w.want("health of a device that is gone", w.healthOf(pod, "app"), "a Unhealthy")
		w.told()
		kill()
		w.want("health without a plugin", w.healthOf(pod, "app")+", "+w.healthOf(idle, "app"), "a Unknown, b Unknown")
		if diff := cmp.Diff([]types.UID{"idle", "pod"}, w.told()); diff != "" {
			t.Errorf("pods that were told of (-want +got):\n%s", diff)
		}
		w.plug(devicestest.Config{}, "a", "b")
		w.want("health with a new plugin", w.healthOf(pod, "app")+", "+w.healthOf(idle, "app"), "a Healthy, b Healthy")
	})
}

// TestCapacityOfAPluginThatHasGone stays for five minutes.
func TestCapacityOfAPluginThatHasGone(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.want("before", w.counts(gpu), "none")
		_, kill := w.plug(devicestest.Config{}, "a", "b")
		w.want("with a plugin", w.counts(gpu), "2/2")
		kill()
		w.want("at once", w.counts(gpu), "0/2")
		w.wantErr(w.admit(newPod("pod", "app=1")), false, "no healthy devices present; cannot allocate unhealthy devices example.com/gpu")
		pass(5 * time.Minute)
		w.want("after 5 minutes", w.counts(gpu), "0/2")
		pass(time.Minute)
		w.want("after 6 minutes", w.counts(gpu), "0/0")
		w.wantErr(w.admit(newPod("pod", "app=1")), false, "cannot allocate unregistered device example.com/gpu")
		w.plug(devicestest.Config{}, "a")
		w.want("with a plugin again", w.counts(gpu), "1/1")
		w.mustAdmit(newPod("pod", "app=1"))
	})
}

// TestListThatFails is not asked for again: the plugin has to register anew.
func TestListThatFails(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p := devicestest.New(devicestest.Config{Devices: listing("a")})
		p.Fail("ListAndWatch", errors.New("no"))
		w.serve("own", p)
		if err := w.Register(w.Context(), gpu, "own", []string{deviceapi.Version}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		w.want("allocatable", w.counts(gpu), "0/0")
		if n := len(p.Calls()); n != 2 {
			t.Errorf("the plugin was called %d times, want once for its options and once for its list: %v", n, p.Calls())
		}
	})
}

func TestRefusedPlugins(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p := devicestest.New(devicestest.Config{})
		p.Fail("GetDevicePluginOptions", errors.New("no options"))
		w.serve("own", p)
		for _, tt := range []struct{ name, resource, version, want string }{
			{"failing", gpu, "v1beta1", "failed to get device plugin options: rpc error: code = Unknown desc = no options"},
			{"old", gpu, "v1alpha1", `requested API version ["v1alpha1"] is not supported by kubelet. Supported version is ["v1beta1"]`},
			{"of Kubernetes", "kubernetes.io/gpu", "v1beta1", `the ResourceName "kubernetes.io/gpu" is invalid`},
			{"without a domain", "gpu", "v1beta1", `the ResourceName "gpu" is invalid`},
			{"a request", "requests.example.com/gpu", "v1beta1", `the ResourceName "requests.example.com/gpu" is invalid`},
			{"bad characters", "example.com/g p u", "v1beta1", `the ResourceName "example.com/g p u" is invalid`},
		} {
			if got := text(w.Register(w.Context(), tt.resource, "own", []string{tt.version})); got != tt.want {
				t.Errorf("%s: error is %q, want %q", tt.name, got, tt.want)
			}
		}
		w.want("allocatable", w.counts(gpu), "none")
		began := time.Now()
		if err := w.Register(w.Context(), gpu, "nobody", []string{"v1beta1"}); err == nil || time.Since(began) > connectTimeout {
			t.Errorf("a plugin that nobody serves: %v after %s, want an error within %s", err, time.Since(began), connectTimeout)
		}
	})
}

// TestNewPluginTakesOver has a second plugin of the same resource come while the first is
// there, on another socket and on the same.
func TestNewPluginTakesOver(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		old, killOld := w.plug(devicestest.Config{Socket: "old"}, "a")
		young, killYoung := w.plug(devicestest.Config{Socket: "young"}, "a", "b")
		w.want("with both", w.counts(gpu), "2/2")
		old.List(listing("a!")...)
		synctest.Wait()
		w.want("when the old one lists", w.counts(gpu), "2/2")
		w.mustAdmit(newPod("one", "app=1"))
		if len(young.Calls("Allocate")) != 1 || len(old.Calls("Allocate")) != 0 {
			t.Errorf("the old plugin was asked %v, the new one %v, want only the new one", old.Calls("Allocate"), young.Calls("Allocate"))
		}
		killYoung()
		w.want("when the new one has gone", w.counts(gpu), "0/1")
		old.List(listing("a", "c")...)
		synctest.Wait()
		w.want("when the old one lists again", w.counts(gpu), "2/2")
		w.plug(devicestest.Config{Socket: "old"}, "a", "b", "c")
		killOld()
		w.want("after it came anew on its socket", w.counts(gpu), "3/3")
		w.Deregister(gpu, "nobody")
		w.want("after another was deregistered", w.counts(gpu), "3/3")
		w.Deregister(gpu, "old")
		synctest.Wait()
		w.want("after it was deregistered", w.counts(gpu), "0/3")
	})
}

// TestHungPluginDelaysNobodyElse has one plugin answer nothing.
func TestHungPluginDelaysNobodyElse(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a", "b")
		hung, _ := w.plug(devicestest.Config{Resource: nic}, "n")
		release := hung.Hang("Allocate")
		slow := newPod("slow", "app=1")
		slow.Spec.Containers[0].Resources.Limits[nic] = slow.Spec.Containers[0].Resources.Limits[gpu]
		done := make(chan error, 1)
		go func() { done <- w.admit(slow) }()
		synctest.Wait()
		began := time.Now()
		w.mustAdmit(newPod("quick", "app=1"))
		p.List(listing("a", "b", "c")...)
		synctest.Wait()
		w.want("allocatable", w.counts(gpu), "3/3")
		if took := time.Since(began); took != 0 {
			t.Errorf("another pod took %s, want no time", took)
		}
		err := <-done
		if took := time.Since(began); took != defaultTimeout {
			t.Errorf("the call was given up after %s, want %s", took, defaultTimeout)
		}
		w.wantErr(err, true, "device plugin example.com/nic: Allocate: rpc error: code = DeadlineExceeded desc = ")
		release()
		w.mustAdmit(slow)
		if n := len(p.Calls("Allocate")); n != 2 {
			t.Errorf("the other plugin was asked %d times, want once for each pod", n)
		}
	})
}

func TestPluginRefuses(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a")
		pod := newPod("pod", "app=1")
		p.Fail("Allocate", status.Error(codes.Internal, "burnt"))
		w.wantErr(w.admit(pod), false, "device plugin example.com/gpu: Allocate: rpc error: code = Internal desc = burnt")
		p.Fail("Allocate", status.Error(codes.Unavailable, "starting"))
		w.wantErr(w.admit(pod), true, "device plugin example.com/gpu: Allocate: rpc error: code = Unavailable desc = starting")
		p.Fail("Allocate", nil)
		w.mustAdmit(pod)
	})
}

// TestPodThatEndsWhileItsPluginIsAsked leaves nothing.
func TestPodThatEndsWhileItsPluginIsAsked(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a")
		release := p.Hang("Allocate")
		pod := newPod("pod", "app=1")
		done := make(chan error, 1)
		go func() { done <- w.admit(pod) }()
		synctest.Wait()
		w.Release(pod.UID)
		release()
		w.wantErr(<-done, true, "devices of container app of pod pod were taken back while its plugin was asked")
		w.mustAdmit(newPod("other", "app=1"))
	})
}

func TestPreStart(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{PreStart: true}, "a")
		pod := newPod("pod", "app=1")
		w.mustAdmit(pod)
		for range 2 { // two runs
			if _, err := w.begin(pod, "app"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]devicestest.Call{{RPC: "PreStartContainer", IDs: []string{"a"}}, {RPC: "PreStartContainer", IDs: []string{"a"}}}, p.Calls("PreStartContainer")); diff != "" {
			t.Errorf("calls before the runs (-want +got):\n%s", diff)
		}
		release := p.Hang("PreStartContainer")
		began := time.Now()
		_, err := w.begin(pod, "app")
		w.wantErr(err, true, "device plugin PreStartContainer rpc failed with err: rpc error: code = DeadlineExceeded desc = ")
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the call was given up after %s, want 30s", took)
		}
		release()
	})
}

// TestPreStartWaitsForItsPlugin has containers start while the plugin is away: one that
// does not prepare devices is not needed.
func TestPreStartWaitsForItsPlugin(t *testing.T) {
	for _, tt := range []struct {
		name     string
		preStart bool
		wantErr  string
	}{
		{"nothing to prepare", false, ""},
		{"devices to prepare", true, "device plugin of example.com/gpu has gone, and has to prepare devices before each run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{}, func(w *world) {
				_, kill := w.plug(devicestest.Config{PreStart: tt.preStart}, "a")
				pod := newPod("pod", "app=1")
				w.mustAdmit(pod)
				kill()
				_, err := w.begin(pod, "app")
				if tt.wantErr != "" {
					w.wantErr(err, true, tt.wantErr)
				} else if err != nil {
					t.Errorf("error is %v, want none", err)
				}
				p, _ := w.plug(devicestest.Config{PreStart: tt.preStart}, "a")
				env, err := w.begin(pod, "app")
				w.want("what the container is told then", env+text(err), "a")
				if got := len(p.Calls("PreStartContainer")) == 1; got != tt.preStart {
					t.Errorf("the plugin prepared the device: %t, want %t", got, tt.preStart)
				}
			})
		})
	}
}

// TestAnswersOfSeveralPlugins are put together, and of two that disagree the first counts.
func TestAnswersOfSeveralPlugins(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		answer := func(name string) func([]string) *deviceapi.ContainerAllocateResponse {
			return func([]string) *deviceapi.ContainerAllocateResponse {
				return &deviceapi.ContainerAllocateResponse{
					Envs:        map[string]string{"BOTH": name, name: "1"},
					Annotations: map[string]string{"both": name},
					Mounts:      []*deviceapi.Mount{{ContainerPath: "/lib", HostPath: "/" + name}, {ContainerPath: "/" + name, HostPath: "/x"}},
					Devices:     []*deviceapi.DeviceSpec{{ContainerPath: "/dev/x", HostPath: "/dev/" + name}},
					CdiDevices:  []*deviceapi.CDIDevice{{Name: "same"}, {Name: name}},
				}
			}
		}
		w.plug(devicestest.Config{Answer: answer("G")}, "a")
		w.plug(devicestest.Config{Resource: nic, Answer: answer("N")}, "n")
		pod := newPod("pod", "app=1")
		limits := pod.Spec.Containers[0].Resources.Limits
		limits[nic] = limits[gpu]
		w.mustAdmit(pod)
		got, err := w.Container(w.Context(), pod, &pod.Spec.Containers[0])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"BOTH": "G", "G": "1", "N": "1"}, got.GetEnvs()); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
		var paths []string
		for _, m := range got.GetMounts() {
			paths = append(paths, m.GetContainerPath()+"="+m.GetHostPath())
		}
		for _, d := range got.GetDevices() {
			paths = append(paths, d.GetContainerPath()+"="+d.GetHostPath())
		}
		for _, d := range got.GetCdiDevices() {
			paths = append(paths, d.GetName())
		}
		if diff := cmp.Diff([]string{"/lib=/G", "/G=/x", "/N=/x", "/dev/x=/dev/G", "same", "G", "N"}, paths); diff != "" {
			t.Errorf("mounts, devices and CDI devices (-want +got):\n%s", diff)
		}
		if got := got.GetAnnotations()["both"]; got != "G" {
			t.Errorf("annotation is %q, want that of the first", got)
		}
	})
}

// TestContainerWithoutDevices is left alone, also with resources that are not of plugins.
func TestContainerWithoutDevices(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		pod := newPod("pod", "app=1") // no plugin has these
		w.mustAdmit(pod)
		got, err := w.Container(w.Context(), pod, &pod.Spec.Containers[0])
		if got != nil || err != nil {
			t.Errorf("the container is given %v, %v, want nothing", got, err)
		}
	})
}

// TestAdmittedPodIsNotRefused has the device of a pod become unhealthy before the pod has
// started.
func TestAdmittedPodIsNotRefused(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, kill := w.plug(devicestest.Config{}, "a")
		pod := newPod("pod", "app=1")
		w.mustAdmit(pod)
		p.List(listing("a!")...)
		synctest.Wait()
		w.mustAdmit(pod)
		kill()
		w.mustAdmit(pod)
		env, err := w.begin(pod, "app")
		w.want("the container is told", env+text(err), "a")
	})
}

// TestPluginThatGoesBeforeItIsAsked is waited for until its capacity is gone.
func TestPluginThatGoesBeforeItIsAsked(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		_, kill := w.plug(devicestest.Config{}, "a")
		pod := newPod("pod", "app=1")
		r := topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]}
		if err := w.Allocate(w.Context(), r, topology.Hint{}); err != nil {
			t.Fatal(err)
		}
		kill()
		w.wantErr(w.Prepare(w.Context(), pod), true, "device plugin of example.com/gpu has gone")
		pass(6 * time.Minute)
		w.wantErr(w.Prepare(w.Context(), pod), false, "device plugin of example.com/gpu has gone")
	})
}

// TestSameListAgain tells nobody and writes nothing, also of a plugin that lists each second
// and one that lists nonsense.
func TestSameListAgain(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		p, _ := w.plug(devicestest.Config{}, "a", "b")
		w.mustAdmit(newPod("pod", "app=1"))
		pass(time.Second)
		w.told()
		saves := w.file.saves
		for range 10 {
			p.List(append(listing("a", "b", "b"), &deviceapi.Device{Health: deviceapi.Healthy})...)
			pass(time.Second)
		}
		w.want("allocatable", w.counts(gpu), "2/2")
		if told := w.told(); len(told) > 0 || w.file.saves != saves {
			t.Errorf("pods %v were told of, and the checkpoint was written %d times, want nothing", told, w.file.saves-saves)
		}
	})
}

// TestSidecarTakesNothingOfLaterContainers allocates in another order than containers
// start, as after the loss of the checkpoint.
func TestSidecarTakesNothingOfLaterContainers(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.plug(devicestest.Config{}, "a", "b")
		pod := newPod("pod", "s:side=1", "i:init=1", "app=1")
		for _, i := range []int{1, 0} {
			r := topology.Request{Pod: pod, Container: &pod.Spec.InitContainers[i]}
			if err := w.Allocate(w.Context(), r, topology.Hint{}); err != nil {
				t.Fatal(err)
			}
		}
		w.mustAdmit(pod)
		w.want("devices", w.has(pod, "init")+" "+w.has(pod, "side")+" "+w.has(pod, "app"), "a b a")
	})
}

// TestRefusedPodWakesNobody has a pod wait for the second of its resources: that the first
// is given back meanwhile is no news.
func TestRefusedPodWakesNobody(t *testing.T) {
	news := 0
	bubble(t, Config{Expected: func(*corev1.Pod, corev1.ResourceName) bool { return true }}, func(w *world) {
		w.plug(devicestest.Config{}, "a")
		pod := newPod("pod", "app=1")
		limits := pod.Spec.Containers[0].Resources.Limits
		limits[nic] = limits[gpu]
		w.Manager.cfg.Changed = func([]types.UID) { news++ }
		places, err := topology.New(topology.Config{Providers: []topology.Provider{w.Manager}})
		if err != nil {
			t.Fatal(err)
		}
		w.wantErr(places.Admit(w.Context(), pod), true, "cannot allocate unregistered device example.com/nic")
		w.want("devices", w.has(pod, "app"), "")
		if news != 0 {
			t.Errorf("%d changes were told of, want none", news)
		}
		w.mustAdmit(newPod("other", "app=1"))
		w.Release("other")
		if news != 1 {
			t.Errorf("after the end of a pod %d changes were told of, want one", news)
		}
	})
}
