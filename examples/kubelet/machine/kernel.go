package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// KernelMode says what is done about kernel settings that a kubelet wants otherwise.
type KernelMode uint8

// The modes.
const (
	// SetKernel sets them. What cannot be set is logged.
	SetKernel KernelMode = iota
	// ProtectKernel has Prepare fail: protectKernelDefaults of a kubelet.
	ProtectKernel
	// LeaveKernel leaves them as they are, and logs them for debugging: the kernel is not
	// the kubelet's, like in a user namespace.
	LeaveKernel
)

// Setting is a kernel setting that a kubelet wants, by its name below /proc/sys.
type Setting struct {
	Name string
	Want int64
}

// Settings are those that the kubelet wants: memory is promised freely and a lack of it
// kills a process and not the machine; a kernel that is broken starts the machine anew; and
// there are keys enough for containers. What they mean is in
// https://docs.kernel.org/admin-guide/sysctl and keyrings(7).
func Settings() []Setting {
	return []Setting{
		{"kernel/keys/root_maxbytes", 25_000_000},
		{"kernel/keys/root_maxkeys", 1_000_000},
		{"kernel/panic", 10},
		{"kernel/panic_on_oops", 1},
		{"vm/overcommit_memory", 1},
		{"vm/panic_on_oom", 0},
	}
}

// Difference is a setting that is not as it should be.
type Difference struct {
	Setting
	Have int64
}

// String returns "kernel.panic is 0, want 10".
func (d Difference) String() string {
	return fmt.Sprintf("%s is %d, want %d", strings.ReplaceAll(d.Name, "/", "."), d.Have, d.Want)
}

// Differences returns the settings of a kernel that are not as a kubelet wants them. Proc is
// where proc is mounted. The error names settings that cannot be read; the others are
// looked at all the same.
func Differences(proc string) ([]Difference, error) {
	var list []Difference
	var errs []error
	for _, s := range Settings() {
		text, err := os.ReadFile(filepath.Join(proc, "sys", s.Name))
		if err != nil {
			errs = append(errs, fmt.Errorf("read kernel setting: %w", err))
			continue
		}
		have, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("read kernel setting %s: %w", s.Name, err))
			continue
		}
		if have != s.Want {
			list = append(list, Difference{Setting: s, Have: have})
		}
	}
	return list, errors.Join(errs...)
}

// tune brings the settings in line, or says why a kubelet must not start.
func (m *Machine) tune() error {
	differences, err := Differences(m.cfg.Proc)
	if err != nil {
		m.cfg.Log.Warn("kernel settings cannot be told", "err", err)
	}
	var errs []error
	for _, d := range differences {
		switch m.cfg.Kernel {
		case ProtectKernel:
			errs = append(errs, fmt.Errorf("protectKernelDefaults: %s", d))
		case LeaveKernel:
			m.cfg.Log.Debug("kernel setting is left as it is", "setting", d.String())
		case SetKernel:
			m.set(d)
		}
	}
	return errors.Join(errs...)
}

func (m *Machine) set(d Difference) {
	// The file is there: it has been read.
	f, err := os.OpenFile(filepath.Join(m.cfg.Proc, "sys", d.Name), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(strconv.FormatInt(d.Want, 10))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		m.cfg.Log.Warn("kernel setting cannot be set", "setting", d.String(), "err", err)
		return
	}
	m.cfg.Log.Info("kernel setting changed", "setting", strings.ReplaceAll(d.Name, "/", "."), "from", d.Have, "to", d.Want)
}
