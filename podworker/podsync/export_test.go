package podsync

import "github.com/nodekit-go/nodekit/podworker/podspec"

// FrailDisk is the disk of the node as an agent sees it that may die at any write.
type FrailDisk struct {
	// Change carries out a write, or does not.
	Change func(write func() error) error
}

func (d FrailDisk) make(p *podspec.Path) error {
	return d.Change(func() error { return localDisk{}.make(p) })
}

func (d FrailDisk) remove(path string) error {
	return d.Change(func() error { return localDisk{}.remove(path) })
}

func (d FrailDisk) removeTree(dir, name string) error {
	return d.Change(func() error { return localDisk{}.removeTree(dir, name) })
}

func (d FrailDisk) link(target, path string) error {
	return d.Change(func() error { return localDisk{}.link(target, path) })
}

func (d FrailDisk) store(path string, data []byte) error {
	return d.Change(func() error { return localDisk{}.store(path, data) })
}

// NewOnDisk is New with another disk.
func NewOnDisk(rt Runtime, cfg Config, d FrailDisk) (*Syncer, error) { return newWith(rt, cfg, d) }
