package pressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// MemoryHog checks that a pod that takes too much of what all pods may have is evicted,
// and no other. What pods may have is set below what the machine has, so that it is in no
// danger: memory for all pods in MiB, of which the hog takes the hog's part.
func MemoryHog(tb testing.TB, cfg Config, all, hog int) {
	tb.Helper()
	threshold := all - hog + hog/8
	n := Start(tb, cfg, func(k *kubeletconfig.KubeletConfiguration) {
		// A little more, as what is reserved has to leave what is never offered.
		k.SystemReserved = map[string]string{"memory": fmt.Sprint(machineMemory(tb) - int64(all)*mib)}
		k.EvictionHard["memory.available"] = fmt.Sprintf("%dMi", threshold)
		k.KernelMemcgNotification = true
	})
	modest := pod("modest", "-memory", "4")
	modest.Spec.Containers[0].Resources.Requests = list("10m", "16Mi")
	greedy := pod("greedy", "-memory", fmt.Sprint(hog))
	n.Run(modest, greedy)
	message := fmt.Sprintf(`^The node was low on resource: memory\. Threshold quantity: %dMi, available: \d+[KM]i\. `+
		`Container main was using \d+[KM]i, request is 0, has larger consumption of memory\. $`, threshold)
	n.awaitEvicted("greedy", message)
	n.spares()
}

// awaitEvicted waits until a pod is evicted with a message.
func (n *Node) awaitEvicted(name, message string) {
	n.tb.Helper()
	p := n.await(name, "is evicted", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if p.Status.Reason != "Evicted" || !regexp.MustCompile(message).MatchString(p.Status.Message) {
		n.tb.Errorf("pod %s failed with reason %q and message %q, want Evicted and %s", name, p.Status.Reason, p.Status.Message, message)
	}
	// Limits of the pod's own are its own fault.
	disrupted := strings.HasPrefix(p.Status.Message, "The node was low")
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			disrupted = !disrupted
		}
	}
	if disrupted {
		n.tb.Errorf("pod %s has the conditions %v", name, p.Status.Conditions)
	}
}

// spares checks that the pod runs that takes little.
func (n *Node) spares() {
	n.tb.Helper()
	n.await("modest", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
}

// Disk is what DiskPressure needs beside the node: a small disk that has all data of
// node and runtime.
type Disk struct {
	// Dir is a directory of it.
	Dir string
	// FillImage has the runtime have an image that takes so many MiB at least, and that
	// nobody uses.
	FillImage func(mib int) error
	// Images tells how many images the runtime has.
	Images func(ctx context.Context) (int, error)
}

// withVolume gives a pod an emptyDir at /v.
func withVolume(p *corev1.Pod, limit string) {
	dir := &corev1.EmptyDirVolumeSource{}
	if limit != "" {
		dir.SizeLimit = new(resource.MustParse(limit))
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: dir}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
}

// limitStorage limits what the container of a pod writes.
func limitStorage(p *corev1.Pod, limit string) {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(limit)}
}

// freeMiB is what a disk has left.
func freeMiB(tb testing.TB, dir string) int {
	tb.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		tb.Fatal(err)
	}
	return int(int64(st.Bavail) * st.Bsize / mib) //nolint:gosec // a small disk
}

// LocalStorage checks that pods are evicted that take more of the disk than their own
// limits allow.
func LocalStorage(tb testing.TB, cfg Config) {
	tb.Helper()
	n := Start(tb, cfg)
	empty := pod("empty-dir", "-file", "/v/f", "-disk", "2")
	withVolume(empty, "1Mi")
	written := pod("written", "-file", "/f", "-disk", "2") // to its own layer
	limitStorage(written, "1Mi")
	modest := pod("modest", "-file", "/v/f", "-disk", "1")
	withVolume(modest, "10Mi")
	limitStorage(modest, "10Mi")
	n.Run(empty, written, modest)
	n.awaitEvicted("empty-dir", `^Usage of EmptyDir volume "v" exceeds the limit "1Mi"\. $`)
	n.awaitEvicted("written", `^(Pod ephemeral local storage usage exceeds the total limit of containers 1Mi|`+
		`Container main exceeded its local ephemeral storage limit "1Mi")\. $`)
	n.spares()
}

// spare is how much more is taken of a disk than is needed, in MiB.
const spare = 8

// DiskPressure fills a small disk: what nobody uses goes first, and pods only when that
// is not enough.
func DiskPressure(tb testing.TB, cfg Config, disk Disk) {
	tb.Helper()
	free := freeMiB(tb, disk.Dir)
	threshold := free / 2
	before, err := disk.Images(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	// The image alone is not too much, nor is what others write; it is when both are there.
	// The node sees the image when it starts: a new one is kept for a while.
	half := (free - threshold) / 2
	if err := disk.FillImage(half); err != nil {
		tb.Fatal(err)
	}
	n := Start(tb, cfg, func(k *kubeletconfig.KubeletConfiguration) {
		k.EvictionHard = map[string]string{"nodefs.available": fmt.Sprintf("%dMi", threshold)}
		k.EvictionPressureTransitionPeriod = metav1.Duration{Duration: time.Second}
		k.ImageMinimumGCAge = metav1.Duration{Duration: time.Millisecond}
	})
	modest := pod("modest", "-file", "/v/f", "-disk", "1")
	withVolume(modest, "")
	// What volumes take is not measured each time: who asks for what it takes is safe.
	modest.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("16Mi")}
	n.Run(modest)
	n.awaitLog(modest, "wrote")
	if err := os.WriteFile(filepath.Join(disk.Dir, "others"), bytes.Repeat([]byte{1}, (half+spare)*mib), 0o600); err != nil {
		tb.Fatal(err)
	}
	n.eventually("the image that nobody uses is removed", func(ctx context.Context) error {
		now, err := disk.Images(ctx)
		if err == nil && now > before {
			err = fmt.Errorf("the runtime has %d images, before it had %d", now, before)
		}
		return err
	})
	n.spares()
	greedy := pod("greedy", "-file", "/v/f", "-disk", fmt.Sprint(half))
	withVolume(greedy, "")
	n.Run(modest, greedy)
	n.awaitEvicted("greedy", `^The node was low on resource: ephemeral-storage\. Threshold quantity: .*, available: .*\. `+
		`Container main was using .*, request is 0, has larger consumption of ephemeral-storage\. $`)
	n.spares()
	n.eventually("what the pod wrote is gone", func(context.Context) error {
		_, err := os.Stat(filepath.Join(cfg.Root, "pods", string(greedy.UID), "volumes"))
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
}
