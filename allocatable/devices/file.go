package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keeper keeps the checkpoint.
type keeper interface {
	// load returns nil if there is none.
	load() ([]byte, error)
	save(raw []byte) error
	// broken says that what was loaded could not be read: it is not to be lost when the
	// next is saved.
	broken()
}

// diskFile is a keeper in a file.
type diskFile struct {
	path string
	// aside is true if the file there now has to be moved away.
	aside bool
}

func (f *diskFile) load() ([]byte, error) {
	raw, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (f *diskFile) broken() { f.aside = true }

// save replaces the file, so that it is whole at any time.
func (f *diskFile) save(raw []byte) error {
	if f.aside {
		if err := os.Rename(f.path, f.path+".broken"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the checkpoint that cannot be read: %w", err)
		}
		f.aside = false
	}
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return fmt.Errorf("save the checkpoint of devices: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".new")
	if err := writeFile(temporary, raw); err != nil {
		return fmt.Errorf("save the checkpoint of devices: %w", err)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("save the checkpoint of devices: %w", err)
	}
	return nil
}

// writeFile writes a file that is on disk when it returns nil.
func writeFile(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}

// saveLater has Run save the checkpoint. Nothing is wrong if it is never saved: the next
// process releases what pods that are gone have.
func (m *Manager) saveLater() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// save writes the checkpoint if it is not what it should be.
func (m *Manager) save() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	raw, err := m.unsavedContent()
	if raw == nil || err != nil {
		return err
	}
	if err := m.file.save(raw); err != nil {
		m.mu.Lock()
		m.unsaved = true
		m.mu.Unlock()
		return err
	}
	return nil
}

// unsavedContent returns what is to be written, nil if nothing is.
func (m *Manager) unsavedContent() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.unsaved {
		return nil, nil
	}
	entries, err := m.book.entries()
	if err != nil {
		return nil, err
	}
	raw, err := checkpointData{PodDeviceEntries: entries, RegisteredDevices: m.offers.registered()}.format()
	m.unsaved = err != nil
	return raw, err
}
