package testnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// atEndFile holds what [Node.AtEnd] was told, a JSON array per command.
const atEndFile = "at-end"

// AtEnd makes a command part of the node's end: it takes back what outlives the node's
// programs in namespaces that were adopted. It runs in these namespaces once the
// programs are gone, those that were named last in front, and also when [Clean] removes
// what a killed program left. A command that fails keeps the node's folder, and runs
// again when that is removed next; so it must bear to run twice. The second call with
// the same command does nothing.
func (n *Node) AtEnd(program string, args ...string) error {
	n.atEnd.Lock()
	defer n.atEnd.Unlock()
	commands, err := n.lay.atEnd()
	if err != nil {
		return err
	}
	command := append([]string{program}, args...)
	if slices.ContainsFunc(commands, func(known []string) bool { return slices.Equal(known, command) }) {
		return nil
	}
	data, err := json.Marshal(append(commands, command))
	if err != nil {
		return fmt.Errorf("note what ends node %s: %w", n.Name(), err)
	}
	file := n.lay.path(atEndFile)
	err = os.WriteFile(file+".new", data, 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("note what ends node %s: %w", n.Name(), err)
	}
	return nil
}

// atEnd returns the commands in the order in which they were named.
func (l layout) atEnd() ([][]string, error) {
	data, err := os.ReadFile(l.path(atEndFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var commands [][]string
	if err == nil {
		err = json.Unmarshal(data, &commands)
	}
	if err != nil {
		return nil, fmt.Errorf("read what ends node %s: %w", l.name, err)
	}
	return commands, nil
}

// runAtEnd runs the commands, as long as the namespaces are there: after the machine
// has started anew, what they take back is gone, too.
func (l layout) runAtEnd(ctx context.Context) error {
	commands, err := l.atEnd()
	if err != nil || len(commands) == 0 {
		return err
	}
	mounts, err := l.mounts()
	if err != nil || !slices.Contains(mounts, l.namespace()) {
		return err
	}
	enter := []string{"PATH=" + searchPath(), "nsenter", "--net=" + l.namespace()}
	if slices.Contains(mounts, l.mountNamespace()) {
		enter = append(enter, "--mount="+l.mountNamespace())
	}
	var errs []error
	for _, command := range slices.Backward(commands) {
		errs = append(errs, run(ctx, "env", slices.Concat(enter, []string{"--"}, command)...))
	}
	return errors.Join(errs...)
}
