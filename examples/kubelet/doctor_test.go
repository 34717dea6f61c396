package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/examples/kubelet/doctor"
)

// TestDoctor runs the command on a node without anything.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(file, []byte(head+"maxPods: -1\ncontainerRuntimeEndpoint: unix://"+dir+"/cri.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", file, "--root-dir", dir, "--hostname-override=node-a", "--max-pods=-2"}
	var out, log bytes.Buffer
	err := runDoctor(nil, args, &out, &log)
	if exit(err, &bytes.Buffer{}) != exitFailed || !strings.Contains(err.Error(), "problems were found") {
		t.Errorf("error is %v, want one that counts the problems", err)
	}
	for _, want := range []string{"--max-pods: maxPods: is -2", "there is no socket " + dir + "/cri.sock"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := runDoctor(nil, append(args, "-o", "json"), &out, &log); err == nil {
		t.Error("no problem was found")
	}
	var findings []doctor.Finding
	if err := json.Unmarshal(out.Bytes(), &findings); err != nil || doctor.Problems(findings) == 0 {
		t.Errorf("JSON is %v: %s", err, &out)
	}
	for _, wrong := range [][]string{{"-o", "xml"}, {"node-a"}, {"--no-such-flag"}} {
		if err := runDoctor(nil, wrong, &out, &log); exit(err, &bytes.Buffer{}) != exitUsage {
			t.Errorf("%v: %v, want an error of the command line", wrong, err)
		}
	}
	if err := runDoctor(nil, []string{"--help"}, &out, &log); err != nil || !strings.Contains(log.String(), "--output") || strings.Contains(log.String(), "--max-pods") {
		t.Errorf("help is %v: %s", err, &log)
	}
}

// TestDoctorOfABrokenFile: a configuration that cannot be read is a finding.
func TestDoctorOfABrokenFile(t *testing.T) {
	o := &doctorOptions{}
	if _, err := o.command().Parse([]string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	n, err := o.patient()
	if err != nil || len(n.Problems) != 1 || !strings.Contains(n.Problems[0].Message, "none.yaml") || n.Kubelet == nil {
		t.Errorf("problems %v, %v", n.Problems, err)
	}
}

func TestRunningArgs(t *testing.T) {
	process := func(proc, pid, comm, cmdline string) {
		dir := filepath.Join(proc, pid)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "comm"), []byte(comm+"\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "cmdline"), []byte(cmdline), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	proc := t.TempDir()
	process(proc, "7", "containerd", "containerd\x00")
	process(proc, "8", "kubelet", "kubelet\x00run\x00--once\x00pod.yaml\x00")
	if got := runningArgs(proc); got != nil {
		t.Errorf("without a kubelet the flags are %q", got)
	}
	process(proc, "9", "kubelet", "/usr/bin/kubelet\x00--config=/x\x00--max-pods=5\x00")
	if diff := cmp.Diff([]string{"--config=/x", "--max-pods=5"}, runningArgs(proc)); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	process(proc, "10", "kubelet", "/usr/bin/kubelet\x00--config=/y\x00")
	namespace := func(pid, kind, name string) {
		t.Helper()
		link := filepath.Join(proc, pid, "ns", kind)
		if err := errors.Join(os.RemoveAll(link), os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(name, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"net", "mnt"} {
		for _, pid := range []string{"self", "9", "10"} {
			namespace(pid, kind, kind+":[1]")
		}
	}
	for _, kind := range []string{"net", "mnt"} {
		namespace("10", kind, kind+":[2]")
		if diff := cmp.Diff([]string{"--config=/x", "--max-pods=5"}, runningArgs(proc)); diff != "" {
			t.Errorf("flags beside a kubelet with another %s (-want +got):\n%s", kind, diff)
		}
		namespace("10", kind, kind+":[1]")
	}
	if got := runningArgs(proc); got != nil {
		t.Errorf("with two kubelets the flags are %q", got)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(filepath.Join(proc, "10"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"--config=/x", "--max-pods=5"}, runningArgs(proc)); diff != "" {
		t.Errorf("flags beside a program of somebody else (-want +got):\n%s", diff)
	}
}

func TestFlagsOfAnotherKubelet(t *testing.T) {
	flags := (&doctorOptions{}).command().Flags()
	kept, unknown := known(flags, []string{"--config=/x", "--never-heard", "of", "--nor=that", "-v", "2", "--neither", "--max-pods", "5"})
	if diff := cmp.Diff([]string{"--config=/x", "-v", "2", "--max-pods", "5"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--never-heard", "--nor", "--neither"}, unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}
