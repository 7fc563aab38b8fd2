//go:build linux || darwin

package proc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// A request is what a program asks of a shim, with files.
type request struct {
	Do       string // watch, signal, exec, attach
	Signal   int
	Args     []string
	Terminal bool
	// In, Out and Err say which of the files follow, in this order. With Terminal there is one, and
	// attach has no Err.
	In, Out, Err bool
}

// A response is what a shim responds with. An exec has two: one at its start, with Pid, and one at
// its end.
type response struct {
	Error string
	Pid   int
	Code  int
	Path  bool // Error is that of a program that does not exist
	// Errno is that of Error, 0 if it has none.
	Errno syscall.Errno
	// Note is what does not work, although there is no Error.
	Note string
	// Started is the begin of the container, in the report of a start.
	Started *started
}

const longestMessage = 4 << 20

// send sends a message with files.
func send(c *net.UnixConn, message any, files ...*os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(data) > longestMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	var rights []byte
	if len(files) > 0 {
		var all []int
		for _, f := range files {
			all = append(all, int(f.Fd()))
		}
		rights = syscall.UnixRights(all...)
	}
	size := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	if n, _, err := c.WriteMsgUnix(size, rights, nil); err != nil || n != len(size) {
		return errors.Join(err, io.ErrShortWrite)
	}
	_, err = c.Write(data)
	return err
}

// receive receives a message with its files, which the caller closes.
func receive(c *net.UnixConn, into any) (files []*os.File, err error) {
	var size [4]byte
	rights := make([]byte, syscall.CmsgSpace(3*4))
	n, m, _, _, err := c.ReadMsgUnix(size[:], rights)
	if err != nil {
		return nil, err
	}
	if m > 0 {
		if files, err = filesOf(rights[:m]); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	if n == 0 {
		return files, io.EOF
	}
	if _, err := io.ReadFull(c, size[n:]); err != nil {
		return files, err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > longestMessage {
		return files, fmt.Errorf("a message of %d bytes is too long", length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(c, data); err != nil {
		return files, err
	}
	return files, json.Unmarshal(data, into)
}

func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		all, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range all {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
