package podstore

import (
	"time"
)

// OpenWithStep is Open with a function that is called before each change of the directory,
// and whose error takes its place: there a process may end.
func OpenWithStep(cfg Config, step func(what string) error) (*Store, error) { return open(cfg, step) }

// EncodeFile returns the content of a file, and DecodeFile its payload.
func EncodeFile(payload []byte) []byte { return encodeFile(payload) }

func DecodeFile(data []byte) ([]byte, error) { return decodeFile(data) }

// Accept takes in a file of a name, as Open does.
func Accept(name string, data []byte) error {
	payload, err := decodeFile(data)
	if err != nil {
		return err
	}
	s := &Store{written: map[string][]byte{}, kept: map[string]time.Time{}}
	return s.accept(name, payload)
}
