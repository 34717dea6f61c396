package podstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A file is a line with a name of the format, the length of the payload and its SHA-256,
// and the payload. The line is there to be read by people, too.
const (
	magic = "nodekit-pod-store/1"
	// maxPayload is more than an API server takes: etcd has a limit of 1.5 MiB
	// (https://etcd.io/docs/v3.5/dev-guide/limit/), and JSON is longer than protobuf.
	maxPayload = 16 << 20
)

// ErrDamaged says of an entry that no Store can have written it so, as after a power cut
// or an edit.
var ErrDamaged = errors.New("damaged")

// encodeFile returns the content of a file.
func encodeFile(payload []byte) []byte {
	sum := sha256.Sum256(payload)
	head := fmt.Sprintf("%s %d %s\n", magic, len(payload), hex.EncodeToString(sum[:]))
	return append([]byte(head), payload...)
}

// decodeFile returns the payload of a file.
func decodeFile(data []byte) ([]byte, error) {
	head, payload, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(head) > len(magic)+100 {
		return nil, fmt.Errorf("%w: it has no first line", ErrDamaged)
	}
	words := strings.Split(string(head), " ")
	if len(words) != 3 || words[0] != magic {
		return nil, fmt.Errorf("%w: its first line is %q, want %q, a length and a checksum", ErrDamaged, head, magic)
	}
	if words[1] != strconv.Itoa(len(payload)) {
		return nil, fmt.Errorf("%w: it has %d bytes, want %s", ErrDamaged, len(payload), words[1])
	}
	if sum := sha256.Sum256(payload); words[2] != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: its content does not fit its checksum", ErrDamaged)
	}
	return payload, nil
}
