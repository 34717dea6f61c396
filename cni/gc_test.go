package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// record returns the path of an attachment's record.
func recordPath(v *Invoker, k Key, network string) string {
	return v.disk.(folder).path(recordName(k, network))
}

func TestGCRemovesWhatIsNotValid(t *testing.T) {
	p, v := setup(t, "stub-a", "stub-b", "stub-c", "loopback")
	n := mustParse(t, three("1.1.0"))
	for _, id := range []string{"c1", "c2", "c3"} {
		if _, err := v.Add(t.Context(), n, Attachment{ContainerID: id, IfName: "eth0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Add(t.Context(), Loopback(), Attachment{ContainerID: id, IfName: "lo"}); err != nil {
			t.Fatal(err)
		}
	}
	p.Forget()
	removed, err := v.GC(t.Context(), n, keep(Key{"c2", "eth0"}, Key{"c2", "lo"}, Key{"unknown", "eth0"}))
	if err != nil {
		t.Error(err)
	}
	want := []Recorded{
		{Key: Key{"c1", "eth0"}, Network: "pods", State: Attached},
		{Key: Key{"c1", "lo"}, Network: "cni-loopback", State: Attached},
		{Key: Key{"c3", "eth0"}, Network: "pods", State: Attached},
		{Key: Key{"c3", "lo"}, Network: "cni-loopback", State: Attached},
	}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	for _, c := range p.Calls() {
		// The attachment of the loopback network is none of this one's.
		if c.Command == "GC" && !strings.Contains(c.Config, `"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"},{"containerID":"unknown","ifname":"eth0"}]`) {
			t.Errorf("GC of %s read %s", c.Plugin, c.Config)
		}
	}
	wantHeld := []string{"loopback c2/lo", "stub-a c2/eth0", "stub-b c2/eth0", "stub-c c2/eth0"}
	if diff := cmp.Diff(wantHeld, p.Held()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

func TestGCAfterTheNetworkWasReplaced(t *testing.T) {
	p, v := setup(t, "old", "new")
	if _, err := v.Add(t.Context(), mustParse(t, conf("old")), Attachment{ContainerID: "c1", IfName: "eth0"}); err != nil {
		t.Fatal(err)
	}
	p.Forget()
	if _, err := v.GC(t.Context(), mustParse(t, conf("new")), keep()); err != nil {
		t.Error(err)
	}
	wantCalls(t, p, "old DEL c1/eth0")
	wantClean(t, v, p)
}

func TestGCGoesOnAfterAFailure(t *testing.T) {
	p, v := setup(t, "a", "b")
	for _, name := range []string{"a", "b"} {
		if _, err := v.Add(t.Context(), mustParse(t, conf(name)), Attachment{ContainerID: "c-" + name, IfName: "eth0"}); err != nil {
			t.Fatal(err)
		}
	}
	p.On("a", "DEL", cnitest.Fail(999, "stuck"))
	removed, err := v.GC(t.Context(), nil, keep())
	if err == nil || !strings.Contains(err.Error(), "c-a/eth0 of network a: network a: plugin a: DEL: stuck") || len(removed) != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
	p.Off("a", "DEL")
	if _, err := v.GC(t.Context(), nil, keep()); err != nil {
		t.Error(err)
	}
	wantClean(t, v, p)
	if _, err := v.GC(t.Context(), nil, func(context.Context) ([]Key, error) { return nil, errors.New("no list") }); err == nil || !strings.Contains(err.Error(), "no list") {
		t.Errorf("error is %v, want that of the list", err)
	}
}

// TestDamagedRecords has what a power cut or a disk makes of a record.
func TestDamagedRecords(t *testing.T) {
	whole := func(data []byte) []byte { return data }
	tests := []struct {
		name   string
		damage func(data []byte) []byte
		// want is how DEL gets its prevResult and configuration.
		state  State
		stored bool
	}{
		{"whole", whole, Attached, true},
		{"empty", func([]byte) []byte { return nil }, Damaged, false},
		{"zeros", func(d []byte) []byte { return make([]byte, len(d)) }, Damaged, false},
		{"cut in the intent", func(d []byte) []byte { return d[:40] }, Damaged, false},
		{"a bit of the intent", func(d []byte) []byte { d[30] ^= 1; return d }, Damaged, false},
		{"cut at the result", func(d []byte) []byte { return d[:1+slices.Index(d, '\n')] }, Unfinished, true},
		{"cut in the result", func(d []byte) []byte { return d[:20+slices.Index(d, '\n')] }, Unfinished, true},
		{"a bit of the result", func(d []byte) []byte { d[20+slices.Index(d, '\n')] ^= 1; return d }, Unfinished, true},
		{"not ours", func([]byte) []byte { return []byte(`{"kind":"cniCacheV1"}`) }, Damaged, false},
	}
	for _, test := range tests {
		for _, by := range []string{"DEL", "GC", "ADD"} {
			t.Run(test.name+", then "+by, func(t *testing.T) {
				p, v := setup(t, "stub-a")
				n := mustParse(t, `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"stub-a","generation":1}]}`)
				now := mustParse(t, `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"stub-a","generation":2}]}`)
				a := Attachment{ContainerID: "c1", IfName: "eth0"}
				if _, err := v.Add(t.Context(), n, a); err != nil {
					t.Fatal(err)
				}
				damageFile(t, recordPath(v, a.Key(), "pods"), test.damage)
				if all, err := v.Attachments(); err != nil || len(all) != 1 || all[0].State != test.state {
					t.Errorf("attachments: %v, %v; want one that is %s", all, err, test.state)
				}
				p.Forget()
				var err error
				switch by {
				case "DEL":
					err = v.Del(t.Context(), now, a)
				case "GC":
					_, err = v.GC(t.Context(), now, keep())
				default:
					if _, err = v.Add(t.Context(), now, a); test.state == Attached {
						if !errors.Is(err, ErrAttached) {
							t.Errorf("error is %v, want ErrAttached", err)
						}
						return
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				c := p.Calls()[0]
				if c.Command != "DEL" || strings.Contains(c.Config, `"generation":1`) != test.stored || strings.Contains(c.Config, "prevResult") != (test.state == Attached) {
					t.Errorf("the first call is %s with %s", c, c.Config)
				}
				if by != "ADD" {
					wantClean(t, v, p)
				}
			})
		}
	}
}

func damageFile(tb testing.TB, path string, damage func([]byte) []byte) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, damage(data), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func TestDamagedRecordOfAnUnknownNetworkStays(t *testing.T) {
	p, v := setup(t, "stub-a", "b")
	a := Attachment{ContainerID: "c1", IfName: "eth0"}
	if _, err := v.Add(t.Context(), mustParse(t, conf("stub-a")), a); err != nil {
		t.Fatal(err)
	}
	damageFile(t, recordPath(v, a.Key(), "stub-a"), func([]byte) []byte { return nil })
	for _, n := range []*Network{nil, mustParse(t, conf("b"))} {
		err := v.Del(t.Context(), n, a)
		if err == nil || !strings.Contains(err.Error(), `record "c1@eth0@stub-a" is damaged`) {
			t.Errorf("error is %v, want that the record is damaged", err)
		}
	}
	if err := v.Del(t.Context(), mustParse(t, conf("stub-a")), a); err != nil {
		t.Error(err)
	}
	wantClean(t, v, p)
}

// TestGCWaitsForAddsInFlight lets a GC come while ADDs are at work: it must see
// them as finished, and none may begin before it ends.
func TestGCWaitsForAddsInFlight(t *testing.T) {
	p, v := setup(t, "stub-a")
	n := mustParse(t, conf("stub-a"))
	var mu sync.Mutex
	known := []Key{}
	var atWork, gcs atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 3 {
				a := Attachment{ContainerID: fmt.Sprintf("c%d-%d", i, j), IfName: "eth0"}
				mu.Lock()
				known = append(known, a.Key()) // as an agent must: before ADD
				mu.Unlock()
				atWork.Add(1)
				if _, err := v.Add(t.Context(), n, a); err != nil {
					t.Error(err)
				}
				atWork.Add(-1)
			}
		})
	}
	for range 5 {
		removed, err := v.GC(t.Context(), n, func(context.Context) ([]Key, error) {
			gcs.Add(1)
			mu.Lock()
			defer mu.Unlock()
			all, err := v.Attachments()
			for _, r := range all {
				if r.State != Attached {
					t.Errorf("%s is %s while GC is alone", r.Key, r.State)
				}
			}
			return slices.Clone(known), err
		})
		if err != nil || len(removed) > 0 {
			t.Errorf("GC removed %v, %v", removed, err)
		}
	}
	wg.Wait()
	if got := p.Held(); len(got) != 24 {
		t.Errorf("%d attachments are left, want all 24", len(got))
	}
}

// TestOneContainerOneAtATime runs operations on one container and on others at
// once. The stub fails if two of one container overlap.
func TestOneContainerOneAtATime(t *testing.T) {
	p, v := setup(t, "stub-a")
	marks := t.TempDir()
	script := "#!/bin/sh\nmkdir " + marks + "/$CNI_CONTAINERID || exit 1\nls " + marks + " | wc -l >>" + marks + ".log\n" +
		"sleep 0.05\nrmdir " + marks + "/$CNI_CONTAINERID\necho '{\"cniVersion\":\"1.0.0\"}'\n"
	if err := os.WriteFile(filepath.Join(p.Dir(), "slow"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n := mustParse(t, conf("slow"))
	// A second invoker of the same directory is what a second process is.
	other := mustNew(t, Config{BinDirs: v.cfg.BinDirs, StateDir: v.disk.(folder).dir})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			a := Attachment{ContainerID: fmt.Sprintf("c%d", i%3), IfName: fmt.Sprintf("net%d", i)}
			own := v
			if i >= 9 {
				a.ContainerID, own = "d"+a.ContainerID, other
			}
			if _, err := own.Add(t.Context(), n, a); err != nil {
				t.Error(err)
			}
			if err := own.Del(t.Context(), n, a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	log, err := os.ReadFile(marks + ".log")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.ContainsAny(string(log), "23456") {
		t.Errorf("no two containers were served at once: %q", log)
	}
	if len(v.containers.of) > 0 {
		t.Errorf("queues are left: %v", v.containers.of)
	}
}

func TestAnotherProcessHoldsTheAttachment(t *testing.T) {
	p, v := setup(t, "stub-a")
	n := mustParse(t, conf("stub-a"))
	a := Attachment{ContainerID: "c1", IfName: "eth0"}
	if _, err := v.Add(t.Context(), n, a); err != nil {
		t.Fatal(err)
	}
	disk := v.disk.(folder)
	file, err := disk.Open(t.Context(), recordName(a.Key(), n.Name))
	if err != nil {
		t.Fatal(err)
	}
	disk.patience = 10 * time.Millisecond
	v.disk = disk
	if err := v.Del(t.Context(), n, a); !errors.Is(err, ErrBusy) {
		t.Errorf("error is %v, want ErrBusy", err)
	}
	disk.patience = time.Hour
	v.disk = disk
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := v.Del(ctx, n, a); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want ErrBusy and that of the context", err)
	}
	release, err := disk.Hold(t.Context(), alone)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := v.GC(ctx, nil, keep()); !errors.Is(err, ErrBusy) {
		t.Errorf("GC: %v, want ErrBusy", err)
	}
	release()
	file.Close()
	if err := v.Del(t.Context(), n, a); err != nil {
		t.Error(err)
	}
	wantClean(t, v, p)
}

// TestGCIsNotOvertaken lets operations of other processes come while a GC waits for the
// one at work: they overlap and would keep it waiting for ever.
func TestGCIsNotOvertaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	worker, collector, late := newFolder(dir, time.Hour), newFolder(dir, time.Hour), newFolder(dir, 0)
	finish, err := worker.Hold(t.Context(), together)
	if err != nil {
		t.Fatal(err)
	}
	type held struct {
		release func()
		err     error
	}
	gc := make(chan held, 1)
	go func() {
		release, err := collector.Hold(t.Context(), alone)
		gc <- held{release, err}
	}()
	for begin := time.Now(); ; pause(t.Context(), time.Millisecond) {
		release, err := late.Hold(t.Context(), together)
		if errors.Is(err, ErrBusy) {
			break // nobody is let in behind the GC
		}
		if err != nil {
			t.Fatal(err)
		}
		release()
		if time.Since(begin) > time.Minute {
			t.Fatal("others are let in while GC waits")
		}
	}
	finish()
	got := <-gc
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, err := late.Hold(t.Context(), together); !errors.Is(err, ErrBusy) {
		t.Errorf("error is %v while GC is at work, want ErrBusy", err)
	}
	got.release()
	release, err := late.Hold(t.Context(), together)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestMissingPluginKeepsTheRecord takes a program away for a while, as an installer of
// plugins does: it may have done something at the time of ADD.
func TestMissingPluginKeepsTheRecord(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		p, v := setup(t, "stub-a", "stub-b", "stub-c")
		n, a := mustParse(t, three("1.0.0")), Attachment{ContainerID: "c1", IfName: "eth0"}
		p.On("stub-c", "ADD", cnitest.Fail(11, "no room"))
		p.On("stub-a", "DEL", cnitest.Fail(999, "stuck"))
		if _, err := v.Add(t.Context(), n, a); err == nil {
			t.Fatal("ADD does not fail")
		}
		p.Off("stub-a", "DEL")
		if damaged {
			damageFile(t, recordPath(v, a.Key(), n.Name), func([]byte) []byte { return nil })
		}
		program, away := filepath.Join(p.Dir(), "stub-a"), filepath.Join(t.TempDir(), "stub-a")
		if err := os.Rename(program, away); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.Forget()
			removed, err := v.GC(t.Context(), n, keep())
			if !errors.Is(err, ErrPluginMissing) || len(removed) > 0 {
				t.Errorf("damaged %t: GC without the program removed %v, %v; want nothing and ErrPluginMissing", damaged, removed, err)
			}
			wantCalls(t, p, "stub-c DEL c1/eth0", "stub-b DEL c1/eth0")
		}
		if err := os.Rename(away, program); err != nil {
			t.Fatal(err)
		}
		if _, err := v.GC(t.Context(), n, keep()); err != nil {
			t.Error(err)
		}
		wantClean(t, v, p)
	}
}

func TestConfigOfInvoker(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no directories", Config{StateDir: "/s"}, "Config.BinDirs is empty"},
		{"relative directory", Config{BinDirs: []string{"bin"}, StateDir: "/s"}, `Config.BinDirs: "bin"`},
		{"list in one", Config{BinDirs: []string{"/a:/b"}, StateDir: "/s"}, `Config.BinDirs: "/a:/b"`},
		{"no state", Config{BinDirs: []string{"/b"}}, `Config.StateDir is ""`},
		{"timeout", Config{BinDirs: []string{"/b"}, StateDir: "/s", Timeout: -1}, "Config.Timeout is -1ns"},
		{"timeout of a plugin", Config{BinDirs: []string{"/b"}, StateDir: "/s", Timeouts: map[string]time.Duration{"x": 0}}, `Config.Timeouts["x"] is 0s`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := New(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestStateDirectoryThatCannotBe(t *testing.T) {
	p := cnitest.New(t, "stub-a")
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	v := mustNew(t, Config{BinDirs: []string{p.Dir()}, StateDir: filepath.Join(file, "state")})
	if _, err := v.Add(t.Context(), mustParse(t, conf("stub-a")), Attachment{ContainerID: "c1", IfName: "eth0"}); err == nil {
		t.Error("no error")
	}
	wantCalls(t, p)
}
