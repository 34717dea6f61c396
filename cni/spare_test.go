package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// spareLab is an invoker whose state directory a test changes behind its back.
type spareLab struct {
	testing.TB
	p   *cnitest.Plugins
	v   *Invoker
	n   *Network
	dir string
}

func newSpareLab(tb testing.TB) *spareLab {
	tb.Helper()
	l := &spareLab{TB: tb, p: cnitest.New(tb, "stub-a"), n: mustParse(tb, conf("stub-a")), dir: filepath.Join(tb.TempDir(), "state")}
	l.restart()
	return l
}

// begin creates the record of c1, which says nothing yet, beside that of c0 or from its spare.
func (l *spareLab) begin(spare bool) diskFile {
	l.Helper()
	l.add("c0")
	if spare {
		l.del("c0")
	}
	file, err := l.v.disk.Create(l.Context(), "c1@eth0@stub-a")
	if err != nil {
		l.Fatal(err)
	}
	return file
}

// restart is a new process.
func (l *spareLab) restart() {
	l.Helper()
	l.v = mustNew(l, Config{BinDirs: []string{l.p.Dir()}, StateDir: l.dir})
}

func (l *spareLab) add(id string) {
	l.Helper()
	if _, err := l.v.Add(l.Context(), l.n, Attachment{ContainerID: id, IfName: "eth0"}); err != nil {
		l.Fatal(err)
	}
}

func (l *spareLab) del(id string) {
	l.Helper()
	if err := l.v.Del(l.Context(), l.n, Attachment{ContainerID: id, IfName: "eth0"}); err != nil {
		l.Fatal(err)
	}
}

// files lists the state directory: records by name, spares as "spare".
func (l *spareLab) files() []string {
	l.Helper()
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		switch {
		case e.Name() == lockFile || e.Name() == turnFile:
		case strings.HasPrefix(e.Name(), sparePrefix):
			names = append(names, "spare")
		default:
			names = append(names, e.Name())
		}
	}
	return names
}

func (l *spareLab) want(names ...string) {
	l.Helper()
	if diff := cmp.Diff(names, l.files()); diff != "" {
		l.Errorf("files (-want +got):\n%s", diff)
	}
}

// path is the file of a record.
func (l *spareLab) path(id string) string { return filepath.Join(l.dir, id+"@eth0@stub-a") }

// rename moves a file, whatever is in its way.
func (l *spareLab) rename(from, to string) {
	l.Helper()
	if err := os.Rename(from, to); err != nil {
		l.Fatal(err)
	}
}

func TestFilesAreUsedAgain(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1")
	l.add("c2")
	l.want("c1@eth0@stub-a", "c2@eth0@stub-a")
	l.del("c1")
	l.want("spare", "c2@eth0@stub-a")
	l.add("c3")
	l.want("c2@eth0@stub-a", "c3@eth0@stub-a")
	info, err := os.Stat(l.path("c3"))
	if err != nil || info.Size()%block != 0 {
		t.Errorf("size is %d, %v", info.Size(), err)
	}
	l.del("c2")
	l.del("c3")
	wantClean(t, l.v, l.p)
}

func TestSparesAreNotWithoutEnd(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1")
	for i := range maxSpares {
		write(t, filepath.Join(l.dir, fmt.Sprintf("%sx%d", sparePrefix, i)), mark)
	}
	l.del("c1")
	if n := len(l.files()); n != maxSpares {
		t.Errorf("%d files, want %d spares", n, maxSpares)
	}
}

// TestMarkUnderTheNameOfARecord is what a process leaves that is killed before its
// record is written, or after it is removed.
func TestMarkUnderTheNameOfARecord(t *testing.T) {
	for _, others := range []int{0, 1} {
		l := newSpareLab(t)
		for i := range others + 1 {
			l.add(fmt.Sprintf("d%d", i))
		}
		for i := range others + 1 {
			l.del(fmt.Sprintf("d%d", i))
		}
		spares, err := filepath.Glob(filepath.Join(l.dir, sparePrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		l.rename(spares[0], l.path("c1"))
		l.p.Forget()
		if left, err := l.v.Attachments(); err != nil || len(left) > 0 {
			t.Errorf("attachments: %v, %v", left, err)
		}
		if _, err := l.v.Result(Key{"c1", "eth0"}); !errors.Is(err, ErrNotAttached) {
			t.Errorf("result: %v, want ErrNotAttached", err)
		}
		if removed, err := l.v.GC(t.Context(), nil, keep()); err != nil || len(removed) > 0 {
			t.Errorf("GC removed %v, %v", removed, err)
		}
		l.add("c1")
		wantCalls(t, l.p, "stub-a ADD c1/eth0")
		l.del("c1")
		wantClean(t, l.v, l.p)
	}
}

// TestNamesAfterAPowerCut has directories whose last changes are lost, while the
// contents are there.
func TestNamesAfterAPowerCut(t *testing.T) {
	tests := []struct {
		name string
		cut  func(*spareLab)
		want []string
	}{
		{"the record still has the name of a spare", func(l *spareLab) {
			l.rename(l.path("c1"), filepath.Join(l.dir, sparePrefix+"7"))
		}, []string{"c1@eth0@stub-a", "c2@eth0@stub-a"}},
		{"the record still has the name of the one before", func(l *spareLab) {
			l.rename(l.path("c1"), l.path("before"))
		}, []string{"c1@eth0@stub-a", "c2@eth0@stub-a"}},
		{"two records have each other's name", func(l *spareLab) {
			l.rename(l.path("c1"), filepath.Join(l.dir, "x"))
			l.rename(l.path("c2"), l.path("c1"))
			l.rename(filepath.Join(l.dir, "x"), l.path("c2"))
		}, []string{"c1@eth0@stub-a", "c2@eth0@stub-a"}},
		{"a removed one is back beside its successor", func(l *spareLab) {
			data, err := os.ReadFile(l.path("c1"))
			if err != nil {
				l.Fatal(err)
			}
			write(l, filepath.Join(l.dir, sparePrefix+"7"), string(data))
		}, []string{"spare", "c1@eth0@stub-a", "c2@eth0@stub-a"}},
		{"a spare has neither mark nor content", func(l *spareLab) {
			write(l, filepath.Join(l.dir, sparePrefix+"7"), strings.Repeat("\x00", block))
		}, []string{"spare", "c1@eth0@stub-a", "c2@eth0@stub-a"}},
		{"a removed one has its name back and the mark", func(l *spareLab) {
			write(l, l.path("c0"), mark)
		}, []string{"spare", "c1@eth0@stub-a", "c2@eth0@stub-a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newSpareLab(t)
			l.add("c1")
			l.add("c2")
			test.cut(l)
			l.restart()
			if _, err := l.v.GC(t.Context(), nil, keep(Key{"c1", "eth0"}, Key{"c2", "eth0"})); err != nil {
				t.Error(err)
			}
			l.want(test.want...)
			for _, id := range []string{"c1", "c2"} {
				if _, err := l.v.Result(Key{id, "eth0"}); err != nil {
					t.Error(err)
				}
			}
			l.p.Forget()
			if _, err := l.v.GC(t.Context(), nil, keep()); err != nil {
				t.Error(err)
			}
			wantClean(t, l.v, l.p)
			wantCalls(t, l.p, "stub-a DEL c1/eth0", "stub-a DEL c2/eth0")
		})
	}
}

// TestNamesAreSortedOutWhateverTheyAre shuffles names and contents.
func TestNamesAreSortedOutWhateverTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "cni-names-") //nolint:usetesting // each of the checks needs its own
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		ids := []string{"c1", "c2", "c3"}
		var want []string
		used := map[string]bool{}
		for i := range rapid.IntRange(0, 6).Draw(t, "files") {
			name := rapid.SampledFrom(append([]string{sparePrefix + "1", sparePrefix + "2"}, "c1@eth0@n", "c2@eth0@n", "c3@eth0@n")).Draw(t, "name")
			content := mark
			if id := rapid.SampledFrom(append(ids, "")).Draw(t, "content"); id != "" && !used[name] {
				first, err := newPage(intent{Version: recordVersion, Network: "n", Attachment: Key{id, "eth0"}, NetNS: fmt.Sprint(i), Config: []byte("{}")})
				if err != nil {
					t.Fatal(err)
				}
				content = string(first.data)
				want = append(want, id+"@eth0@n")
			}
			if used[name] {
				continue
			}
			used[name] = true
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := newFolder(dir, 0)
		if err := f.sortOut(); err != nil {
			t.Fatal(err)
		}
		names, err := f.Names()
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, f.marked)
		slices.Sort(want)
		if diff := cmp.Diff(slices.Compact(want), names); diff != "" && len(want)+len(names) > 0 {
			t.Fatalf("records (-want +got):\n%s", diff)
		}
		for _, name := range names {
			data, _, err := f.Peek(name)
			if got, ok := recordedName(data); err != nil || !ok || got != name {
				t.Fatalf("%s holds %q, %v", name, got, err)
			}
		}
	})
}

// TestManyTakeTheSameSpares has invokers as of several processes at work on few
// spares.
func TestManyTakeTheSameSpares(t *testing.T) {
	l := newSpareLab(t)
	var wg sync.WaitGroup
	for i := range 6 {
		v := mustNew(t, Config{BinDirs: []string{l.p.Dir()}, StateDir: l.dir})
		wg.Go(func() {
			for j := range 8 {
				a := Attachment{ContainerID: fmt.Sprintf("c%d-%d", i, j), IfName: "eth0"}
				if _, err := v.Add(t.Context(), l.n, a); err != nil {
					t.Error(err)
				}
				if r, err := v.Result(a.Key()); err != nil || r == nil {
					t.Errorf("result: %v, %v", r, err)
				}
				if err := v.Del(t.Context(), l.n, a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantClean(t, l.v, l.p)
	if n := len(l.files()); n > 6 {
		t.Errorf("%d files are left, want one for each process at most", n)
	}
}

// TestCreatedFileCountsBeforeItIsWritten has a process that is killed while its first
// plugin starts: no matter whether the file is new or was a spare, DEL is due.
func TestCreatedFileCountsBeforeItIsWritten(t *testing.T) {
	for _, spare := range []bool{false, true} {
		l := newSpareLab(t)
		file := l.begin(spare)
		file.Close()
		l.restart()
		l.p.Forget()
		if _, err := l.v.GC(t.Context(), l.n, keep(Key{"c0", "eth0"})); err != nil {
			t.Error(err)
		}
		wantCalls(t, l.p, "stub-a DEL c1/eth0")
	}
}

// TestSpareThatBecameARecord has two processes that take the same spare: the second one
// gets its lock when the first one's record is complete.
func TestSpareThatBecameARecord(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1")
	if _, err := l.v.disk.(folder).useSpare(t.Context(), "c1@eth0@stub-a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error is %v, want fs.ErrExist", err)
	}
	if _, err := l.v.Result(Key{"c1", "eth0"}); err != nil {
		t.Error(err)
	}
}

// TestFilesWhereNoneAppearsLocked has a file system that cannot make a file before its
// name.
func TestFilesWhereNoneAppearsLocked(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1") // makes the directory
	f := l.v.disk.(folder)
	file, err := f.makeFile(t.Context(), "c2@eth0@stub-a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.makeFile(t.Context(), "c2@eth0@stub-a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same name again: %v, want fs.ErrExist", err)
	}
	if all, err := l.v.Attachments(); err != nil || len(all) != 2 || all[1].State != Unfinished {
		t.Errorf("attachments are %v, %v; want the second one unfinished", all, err)
	}
	file.Close()
}

func TestCreateFailsWhereARecordIs(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1")
	l.add("c2")
	l.del("c2") // a spare
	if _, err := l.v.disk.Create(t.Context(), "c1@eth0@stub-a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error is %v, want fs.ErrExist", err)
	}
	l.want("spare", "c1@eth0@stub-a")
}

// TestForeignFilesAreLeftAlone has files in the directory that are none of ours, one of
// them larger than any record.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	l := newSpareLab(t)
	l.add("c1")
	for _, name := range []string{"backup.tar", "@other"} {
		write(t, filepath.Join(l.dir, name), "")
		if err := os.Truncate(filepath.Join(l.dir, name), maxRecord+1); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(l.dir, "note"), mark)
	l.restart()
	if _, err := l.v.GC(t.Context(), nil, keep(Key{"c1", "eth0"})); err != nil {
		t.Error(err)
	}
	if err := l.v.Check(t.Context(), Key{"c1", "eth0"}); err != nil {
		t.Error(err)
	}
	l.want("@other", "backup.tar", "c1@eth0@stub-a", "note")
	l.del("c1")
	wantClean(t, l.v, l.p)
}

// TestStateOfARecordAtWork looks at a record between its creation and its first line.
func TestStateOfARecordAtWork(t *testing.T) {
	for _, spare := range []bool{false, true} {
		l := newSpareLab(t)
		file := l.begin(spare)
		state := func() State {
			all, err := l.v.Attachments()
			if err != nil || len(all) == 0 || all[len(all)-1].ContainerID != "c1" {
				t.Fatalf("attachments are %v, %v; want c1 as the last", all, err)
			}
			return all[len(all)-1].State
		}
		if got := state(); got != Unfinished {
			t.Errorf("spare %t: the state is %s while somebody has the lock, want unfinished", spare, got)
		}
		file.Close()
		if got := state(); got != Damaged {
			t.Errorf("spare %t: the state is %s when nobody has it, want damaged", spare, got)
		}
	}
}

// TestNoRecordLooksDamaged looks at records while they are made and removed.
func TestNoRecordLooksDamaged(t *testing.T) {
	l := newSpareLab(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			a := Attachment{ContainerID: fmt.Sprintf("c%d", i), IfName: "eth0"}
			for range 30 {
				if _, err := l.v.Add(t.Context(), l.n, a); err != nil {
					t.Error(err)
				}
				if err := l.v.Del(t.Context(), l.n, a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for {
		all, err := l.v.Attachments()
		if err != nil || slices.ContainsFunc(all, func(r Recorded) bool { return r.State == Damaged }) {
			t.Errorf("attachments are %v, %v", all, err)
			<-done
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
