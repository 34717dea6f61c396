package podsync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// withVolumes is a pod with an emptyDir and a directory of the host.
func withVolumes(host string) *corev1.Pod {
	kind := corev1.HostPathDirectoryOrCreate
	pod := newPod("files", corev1.Container{
		Name: "app", Image: shell,
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "host", MountPath: "/host"}},
	})
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host, Type: &kind}}},
	}
	return pod
}

// TestEverythingIsRemovedButUserData follows the directories of a pod, in whose
// volume a container has left a link out of it.
func TestEverythingIsRemovedButUserData(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		host := filepath.Join(m.dir, "data", "web")
		pod := withVolumes(host)
		a := m.agent(t)
		a.add(pod)
		pass(5 * time.Second)
		scratch := filepath.Join(m.root(), "pods", "uid-files", "volumes", "kubernetes.io~empty-dir", "scratch")
		info, err := os.Stat(scratch)
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Fatalf("emptyDir: %v, %v, want mode 0777", info, err)
		}
		keep := filepath.Join(host, "keep")
		if err := os.WriteFile(keep, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(host, filepath.Join(scratch, "out")); err != nil {
			t.Fatal(err)
		}
		a.remove(pod)
		pass(time.Minute)
		if _, err := os.Lstat(scratch); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("emptyDir is still there: %v", err)
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(m.root(), "pods"), m.logs(), filepath.Join(m.dir, "links")} {
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) > 0 {
				t.Errorf("%s has %v (%v), want nothing", dir, entries, err)
			}
		}
		if _, err := os.Stat(keep); err != nil {
			t.Errorf("user data: %v", err)
		}
	})
}

func TestHostPathOfTheWrongType(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		host := filepath.Join(m.dir, "data")
		if err := os.WriteFile(host, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		a := m.agent(t)
		pod := withVolumes(host)
		a.add(pod)
		pass(5 * time.Second)
		if w := a.status(pod).ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ContainerCreating" {
			t.Errorf("state is %+v, want ContainerCreating", w)
		}
		want := `files Warning FailedMount: MountVolume.SetUp failed for volume "host" : hostPath type check failed: ` + host + " is not a directory"
		if got := a.told("FailedMount"); len(got) == 0 || strings.Join(strings.Fields(got[0]), " ") != want {
			t.Errorf("events: %q, want %q", got, want)
		}
		if got := len(m.Calls("CreateContainer")); got != 0 {
			t.Errorf("%d containers created, want none", got)
		}
	})
}

func TestLogLink(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("web")
		a.add(pod)
		pass(5 * time.Second)
		id := strings.TrimPrefix(a.status(pod).ContainerStatuses[0].ContainerID, "containerd://")
		link := filepath.Join(m.dir, "links", "web_default_app-"+id+".log")
		target, err := os.Readlink(link)
		if want := filepath.Join(m.logs(), "default_web_uid-web", "app", "0.log"); err != nil || target != want {
			t.Errorf("%s leads to %q (%v), want %q", link, target, err, want)
		}
	})
}

// TestTerminationMessages has a container that writes its last words to the file it
// was given, and one whose log has to speak for it.
func TestTerminationMessages(t *testing.T) {
	tests := []struct {
		name   string
		policy corev1.TerminationMessagePolicy
		file   string
		log    []runtimetest.LogLine
		want   string
	}{
		{name: "file", policy: corev1.TerminationMessageReadFile, file: "no disk", want: "no disk"},
		{name: "long file", policy: corev1.TerminationMessageReadFile, file: strings.Repeat("x", 5000), want: strings.Repeat("x", 4096)},
		{name: "log is not asked", policy: corev1.TerminationMessageReadFile, log: []runtimetest.LogLine{{Text: "oops"}}},
		{
			name: "log", policy: corev1.TerminationMessageFallbackToLogsOnError,
			log: []runtimetest.LogLine{{Text: "one"}, {Text: "tw", Partial: true}, {Text: "o"}}, want: "one\ntwo\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				for i := range tt.log {
					tt.log[i].After = time.Duration(i+1) * time.Millisecond
				}
				m.SetLives("app", runtimetest.Life{Exit: &runtimetest.Exit{After: 5 * time.Second, Code: 1}, Log: tt.log})
				a := m.agent(t)
				pod := newPod("web", corev1.Container{
					Name: "app", Image: shell, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: tt.policy,
				})
				pod.Spec.RestartPolicy = corev1.RestartPolicyNever
				a.add(pod)
				pass(2 * time.Second)
				if err := os.WriteFile(messageFile(t, m), []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
				pass(10 * time.Second)
				end := a.status(pod).ContainerStatuses[0].State.Terminated
				if end == nil || end.Message != tt.want {
					t.Errorf("container ended as %+v, want message %.20q", end, tt.want)
				}
			})
		})
	}
}

// messageFile returns the file mounted for the termination message.
func messageFile(t *testing.T, m *machine) string {
	t.Helper()
	config := m.Calls("CreateContainer")[0].Request.(*runtimeapi.CreateContainerRequest).GetConfig()
	for _, mount := range config.GetMounts() {
		if mount.GetContainerPath() == "/dev/termination-log" {
			return mount.GetHostPath()
		}
	}
	t.Fatal("the container has no mount for its termination message")
	return ""
}

// TestMessageIsNotFollowedOut replaces the file by a link to something secret.
func TestMessageIsNotFollowedOut(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(5*time.Second, 1))
		secret := filepath.Join(m.dir, "secret")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := m.agent(t)
		pod := newPod("web", corev1.Container{Name: "app", Image: shell, TerminationMessagePath: "/dev/termination-log"})
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(2 * time.Second)
		file := messageFile(t, m)
		if err := errors.Join(os.Remove(file), os.Symlink(secret, file)); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if end := a.status(pod).ContainerStatuses[0].State.Terminated; end == nil || end.Message != "" {
			t.Errorf("container ended as %+v, want no message", end)
		}
	})
}

// TestUIDThatLeadsElsewhere has a pod whose UID is the way to the parent directory.
func TestUIDThatLeadsElsewhere(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		keep := filepath.Join(m.root(), "volumes", "keep")
		if err := os.MkdirAll(keep, 0o755); err != nil {
			t.Fatal(err)
		}
		a := m.agent(t)
		pod := newPod("evil")
		pod.UID = ".."
		a.add(pod)
		pass(time.Minute)
		if st := a.status(pod); st.Phase != corev1.PodFailed {
			t.Errorf("phase is %s, want Failed", st.Phase)
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); err == nil {
			t.Error("Forget took it for a pod")
		}
		if left, err := a.syncer.Remains(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("Remains = %v, %v, want none", left, err)
		}
		if _, err := os.Stat(keep); err != nil {
			t.Errorf("what is beside the pods: %v", err)
		}
		m.WantChanges(t)
	})
}
