package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServiceTells: systemd is told that the kubelet serves, that it is alive, and that it
// ends. The runtime is not there: nobody waits for it.
func TestServiceTells(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "200000")
	t.Setenv("WATCHDOG_PID", "")
	next := func() string {
		t.Helper()
		buf := make([]byte, 100)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("systemd was told nothing: %v", err)
		}
		return string(buf[:n])
	}
	root := filepath.Join(dir, "root")
	o, err := parse([]string{
		"--root-dir", root, "--container-runtime-endpoint=unix://" + filepath.Join(dir, "none.sock"), "--hostname-override=node-a",
		"--enable-server=false", "--healthz-port=0", "--make-iptables-util-chains=false", "--fail-swap-on=false",
		"--feature-gates=KubeletInUserNamespace=true", "--max-open-files=1024", "--oom-score-adj=0",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	var log bytes.Buffer
	go func() { ended <- o.run(ctx, io.Discard, &log) }()
	if got := next(); got != "READY=1" {
		t.Errorf("systemd was told %q first, want READY=1", got)
	}
	if _, err := os.Stat(filepath.Join(root, "kubelet.sock")); err != nil {
		t.Errorf("it was ready before its servers were: %v", err)
	}
	for range 2 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("systemd was told %q, want WATCHDOG=1", got)
		}
	}
	stop()
	for got := next(); got != "STOPPING=1"; got = next() {
		if got != "WATCHDOG=1" {
			t.Errorf("systemd was told %q, want STOPPING=1", got)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}

// TestUnitFiles: the service is one that kubeadm can use, and that systemd reads.
func TestUnitFiles(t *testing.T) {
	unit, dropIn := readText(t, "systemd/kubelet.service"), readText(t, "systemd/kubelet.service.d/10-kubeadm.conf")
	for _, want := range []string{"Type=notify", "WatchdogSec=", "Restart=always", "StartLimitIntervalSec=0", "KillMode=process", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, "\n"+want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	for _, want := range []string{
		"EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env", "EnvironmentFile=-/etc/default/kubelet", "EnvironmentFile=-/etc/sysconfig/kubelet",
		"ExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
	} {
		if !strings.Contains(dropIn, "\n"+want) {
			t.Errorf("the drop-in has no %s", want)
		}
	}
	var args []string
	for _, m := range regexp.MustCompile(`(?m)^Environment="\w+=(.*)"$`).FindAllStringSubmatch(dropIn, -1) {
		args = append(args, strings.Fields(m[1])...)
	}
	if len(args) != 3 {
		t.Errorf("the drop-in sets the flags %v, want those of bootstrap, kubeconfig and configuration", args)
	}
	if _, err := parse(args, io.Discard); err != nil {
		t.Errorf("the kubelet does not take the flags of the drop-in: %v", err)
	}
	verifyUnits(t, unit, dropIn)
}

// verifyUnits has systemd-analyze read the files, with another program in the place of the
// kubelet, which need not be installed.
func verifyUnits(t *testing.T, unit, dropIn string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze to read them")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "kubelet.service.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"kubelet.service": unit, "kubelet.service.d/10-kubeadm.conf": dropIn} {
		content = strings.ReplaceAll(content, "/usr/bin/kubelet", self)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(dir, "kubelet.service")).CombinedOutput()
	// What it says of other units of this machine, or of a machine without systemd, is not
	// about these.
	if err != nil || strings.Contains(string(out), "kubelet.service") {
		t.Logf("systemd-analyze: %v\n%s", err, out)
		if strings.Contains(string(out), "kubelet.service") {
			t.Error("systemd does not read the unit")
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
