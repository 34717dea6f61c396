package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// objectsText is a manifest with the objects of the pod below, of which the ConfigMap has
// a value.
func objectsText(value string) string {
	return `apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {app.ini: "` + value + `", deep: "down"}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: "s3cret"}
`
}

// volumesPod is a pod with a volume of each kind that a static pod can have. Its process
// is of user 1234 and group 5678, and its volumes are of group 4242.
func volumesPod(name string, host corev1.Volume) *corev1.Pod {
	pod := newPod(name, "-print-env")
	pod.Labels = map[string]string{"app": "shop", "tier": "back"}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(5678)), FSGroup: new(int64(4242))}
	size := resource.MustParse("1Mi")
	field := func(path, field string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
	}
	conf := corev1.LocalObjectReference{Name: "conf"}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}},
		host,
		{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: conf,
			Items:                []corev1.KeyToPath{{Key: "app.ini", Path: "app.ini"}, {Key: "deep", Path: "a/b", Mode: new(int32(0o400))}},
		}}},
		{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key", DefaultMode: new(int32(0o440))}}},
		{Name: "facts", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			field("labels", "metadata.labels"), field("name", "metadata.name"),
		}}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: conf, Items: []corev1.KeyToPath{{Key: "app.ini", Path: "conf"}}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{field("uid-of/pod", "metadata.namespace")}}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
		}}}},
	}
	c := mainOf(pod)
	for _, v := range pod.Spec.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/v/" + v.Name})
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "conf", MountPath: "/part", SubPath: "app.ini"})
	c.Env = []corev1.EnvVar{{Name: "INI", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: conf, Key: "app.ini"}}}}
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "KEY_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}}}
	return pod
}

// fromInside is what the process of that pod sees.
func fromInside(name, value string) []string {
	return []string{
		"drwxr-xr-x 0 0 /v",
		"dgtrwxrwxrwx 0 4242 /v/all",
		`-rw-r--r-- 0 4242 /v/all/conf "` + value + `"`,
		`-rw-r--r-- 0 4242 /v/all/password "s3cret"`,
		"dgrwxr-xr-x 0 4242 /v/all/uid-of",
		`-rw-r--r-- 0 4242 /v/all/uid-of/pod "default"`,
		"dgrwxrwxrwx 0 4242 /v/conf",
		"dgrwxr-xr-x 0 4242 /v/conf/a",
		`-r--r----- 0 4242 /v/conf/a/b "down"`,
		`-rw-r--r-- 0 4242 /v/conf/app.ini "` + value + `"`,
		"dgrwxrwxrwx 0 4242 /v/disk",
		"dgtrwxrwxrwx 0 4242 /v/facts",
		`-rw-r--r-- 0 4242 /v/facts/labels "app=\"shop\"\ntier=\"back\""`,
		`-rw-r--r-- 0 4242 /v/facts/name "` + podName(name) + `"`,
		"drwxr-xr-x 0 0 /v/input",
		`-rw-r--r-- 0 0 /v/input/greeting "hello"`,
		"dgtrwxrwxrwx 0 4242 /v/key",
		`-r--r----- 0 4242 /v/key/password "s3cret"`,
		"dgtrwxrwxrwx 0 4242 /v/memory",
	}
}

// look returns what a container sees below a folder.
func (a *agent) look(ctx context.Context, pod, folder string) ([]string, error) {
	id, err := a.runningID(ctx, pod)
	if err != nil {
		return nil, err
	}
	text, err := a.exec(ctx, id, "/life", "list", folder)
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines, err
}

// runningID is containerID for a container that may just be starting.
func (a *agent) runningID(ctx context.Context, pod string) (string, error) {
	p, err := a.kubelet.Pod(ctx, podName(pod))
	if err != nil {
		return "", err
	}
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Running == nil {
		return "", errors.New("the container does not run")
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id, nil
}

// waitSees waits until a container sees just this below a folder.
func (a *agent) waitSees(pod, folder string, want []string) {
	a.t.Helper()
	a.eventually(podName(pod)+" sees what it should in "+folder, func(ctx context.Context) error {
		got, err := a.look(ctx, pod, folder)
		if err == nil && !slices.Equal(got, want) {
			err = errors.New("(-want +got):\n" + cmp.Diff(want, got))
		}
		return err
	})
}

// TestVolumesFromInside looks at volumes of every kind from inside of a pod, changes what
// they show, kills the kubelet, and lets the machine die.
func TestVolumesFromInside(t *testing.T) { volumesFromInside(startAgent(t)) }

// TestVolumesFromInsideOnContainerd2 does so on a current containerd.
func TestVolumesFromInsideOnContainerd2(t *testing.T) {
	volumesFromInside(startAgentOn(t, currentContainerd(t)))
}

func volumesFromInside(a *agent) {
	t := a.t
	t.Helper()
	dir, host := a.hostFolder("input")
	if err := os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	const name = "volumes"
	a.runPod(volumesPod(name, host))
	a.eventually("the pod is refused without its objects", func(ctx context.Context) error {
		statuses, err := a.fileStatuses(ctx)
		if s := statuses[name+".yaml"]; err == nil && (s.State != "invalid" || !strings.Contains(s.Reason, "none holds")) {
			err = fmt.Errorf("its manifest is %+v", s)
		}
		return err
	})
	a.file(a.Manifests(), "objects.yaml", []byte(objectsText("one")))
	running := a.waitReady(name)
	a.waitSees(name, "/v", fromInside(name, "one"))
	a.waitSees(name, "/part", []string{`-rw-r--r-- 0 4242 /part "one"`})
	log, err := a.readLog(running, 0)
	if err != nil || !slices.Contains(log, "env INI=one") || !slices.Contains(log, "env KEY_password=s3cret") {
		t.Errorf("the container printed %q, %v; want its variables", log, err)
	}
	before := a.instances()

	began := time.Now()
	a.file(a.Manifests(), "objects.yaml", []byte(objectsText("two")))
	a.waitSees(name, "/v/conf/app.ini", []string{`-rw-r--r-- 0 4242 /v/conf/app.ini "two"`})
	t.Logf("a change of a file was seen inside after %s", time.Since(began).Round(time.Millisecond))
	a.waitSees(name, "/v", fromInside(name, "two"))
	a.waitSees(name, "/part", []string{`-rw-r--r-- 0 4242 /part "one"`}) // until the container starts anew

	a.killedKubeletKeepsVolumes(name)
	if diff := cmp.Diff(before, a.instances()); diff != "" {
		t.Errorf("containers (-before +after):\n%s", diff)
	}
	a.newContainerSeesNewest(name)
	a.deadMachineGetsVolumesAgain(name)
}

// killedKubeletKeepsVolumes kills the kubelet: volumes stay mounted, and the next one keeps
// them new.
func (a *agent) killedKubeletKeepsVolumes(name string) {
	a.t.Helper()
	mounts := a.mounts()
	if len(mounts) < 4 { // memory, two with secrets, a part of one
		a.t.Errorf("mounts of the pod: %q", mounts)
	}
	if err := a.kubelet.Kill(); err != nil {
		a.t.Fatal(err)
	}
	a.file(a.Manifests(), "objects.yaml", []byte(objectsText("three")))
	a.start()
	a.waitSees(name, "/v", fromInside(name, "three"))
	if diff := cmp.Diff(mounts, a.mounts()); diff != "" {
		a.t.Errorf("mounts (-before +after):\n%s", diff)
	}
}

// newContainerSeesNewest kills the process of the container: the next one has the newest
// of a part of a volume, too.
func (a *agent) newContainerSeesNewest(name string) {
	a.t.Helper()
	if err := unix.Kill(a.instances()[podName(name)].PID, unix.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	a.waitPod(name, "was restarted", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
	})
	a.waitSees(name, "/part", []string{`-rw-r--r-- 0 4242 /part "three"`})
}

// deadMachineGetsVolumesAgain imitates a reboot: nothing runs and nothing is mounted any
// more, and what is on the disk stays.
func (a *agent) deadMachineGetsVolumesAgain(name string) {
	a.t.Helper()
	pod := a.waitReady(name)
	disk := filepath.Join(a.KubeletRoot(), "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir")
	for _, volume := range []string{"disk", "memory"} {
		if err := os.WriteFile(filepath.Join(disk, volume, "kept"), []byte(volume), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := a.kubelet.Kill(); err != nil {
		a.t.Fatal(err)
	}
	a.removeSandboxes(a.t.Context())
	mounts := a.mounts()
	for _, at := range slices.Backward(mounts) {
		if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
			a.t.Fatalf("unmount %s: %v", at, err)
		}
	}
	a.start()
	a.waitReady(name)
	want := fromInside(name, "three")
	at := slices.Index(want, "dgrwxrwxrwx 0 4242 /v/disk")
	a.waitSees(name, "/v", slices.Insert(want, at+1, `-rw-r--r-- 0 4242 /v/disk/kept "disk"`))
	if diff := cmp.Diff(mounts, a.mounts()); diff != "" {
		a.t.Errorf("mounts (-before +after):\n%s", diff)
	}
}

// mounts returns the mount points below the folders of pods, sorted.
func (a *agent) mounts() []string {
	a.t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		a.t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, filepath.Join(a.KubeletRoot(), "pods")+"/") {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return found
}
