package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// prepareProcess sets what the kernel knows of this process. A process without the privilege
// runs with what it has.
func (m *Machine) prepareProcess() {
	if m.cfg.OOMScoreAdj != nil {
		path := filepath.Join(m.cfg.Proc, "self", "oom_score_adj")
		if err := os.WriteFile(path, []byte(strconv.Itoa(int(*m.cfg.OOMScoreAdj))), 0); err != nil {
			m.cfg.Log.Info("the kernel may choose this process when memory runs short", "err", err)
		}
	}
	if m.cfg.MaxOpenFiles > 0 {
		if err := openFiles(m.cfg.MaxOpenFiles); err != nil {
			m.cfg.Log.Info("this process may open fewer files than it should", "err", err)
		}
	}
}

// openFiles lets this process open a number of files, or as many as it may.
func openFiles(n uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("tell how many files may be open: %w", err)
	}
	wanted := unix.Rlimit{Cur: n, Max: max(n, limit.Max)}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted)
	if err == nil || n <= limit.Max {
		return err
	}
	return fmt.Errorf("raise the limit of open files from %d to %d: %w", limit.Max, n, err)
}
