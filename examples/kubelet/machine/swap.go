package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Swaps returns the files and devices that a machine swaps to. Proc is where proc is
// mounted. A kernel without swap has no list of them.
func Swaps(proc string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(proc, "swaps"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out whether the machine swaps: %w", err)
	}
	var swaps []string
	for line := range bytes.Lines(data) {
		// The first line has the titles.
		if fields := strings.Fields(string(line)); len(fields) > 0 && fields[0] != "Filename" {
			swaps = append(swaps, fields[0])
		}
	}
	return swaps, nil
}

func (m *Machine) checkSwap() error {
	if !m.cfg.FailSwapOn {
		return nil
	}
	swaps, err := Swaps(m.cfg.Proc)
	if err != nil {
		return err
	}
	if len(swaps) > 0 {
		return fmt.Errorf("the machine swaps to %s: turn that off (swapoff -a), or set failSwapOn: false", strings.Join(swaps, ", "))
	}
	return nil
}
