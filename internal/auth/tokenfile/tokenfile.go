// Package tokenfile knows bearers by a file of tokens: kube-apiserver's --token-auth-file. A line of it is
//
//	TOKEN,USER,UID[,"GROUP,GROUP..."]
//
// in the CSV of package encoding/csv. A [Table] may be read anew while requests are served; it starts no goroutine.
package tokenfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/auth"
)

// A Table knows the bearers of tokens. It implements auth.TokenAuthenticator, and knows nobody before Load.
type Table struct {
	bearers atomic.Pointer[bearers]
}

// bearers are users by the sum of their token: how long a look into the map takes says nothing of the tokens in it.
type bearers map[[sha256.Size]byte]*auth.User

// Load puts what a file says in the place of what it said before. What may be a mistake is returned as warnings, without
// the tokens; where the file cannot be read, all stays as it was.
func (t *Table) Load(data []byte) (warnings []string, err error) {
	b, warnings, err := parse(data)
	if err != nil {
		return nil, err
	}
	t.bearers.Store(&b)
	return warnings, nil
}

// AuthenticateToken implements auth.TokenAuthenticator.
func (t *Table) AuthenticateToken(_ context.Context, token string, wanted []string) (*auth.User, []string, error) {
	b := t.bearers.Load()
	if b == nil {
		return nil, nil, nil
	}
	u := (*b)[sha256.Sum256([]byte(token))]
	if u == nil {
		return nil, nil, nil
	}
	return u, wanted, nil
}

func parse(data []byte) (bearers, []string, error) {
	all, warnings := bearers{}, []string(nil)
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	for n := 1; ; n++ {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, warnings, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(record) < 3 {
			line, _ := reader.FieldPos(0)
			return nil, nil, fmt.Errorf("line %d: must have at least 3 columns (token, user name, user uid), found %d", line, len(record))
		}
		if record[0] == "" {
			warnings = append(warnings, fmt.Sprintf("record %d has no token, and is left out", n))
			continue
		}
		u := &auth.User{Name: record[1], UID: record[2]}
		if len(record) >= 4 {
			u.Groups = strings.Split(record[3], ",")
		}
		u.Groups = auth.WithAuthenticated(u.Groups)
		sum := sha256.Sum256([]byte(record[0]))
		if all[sum] != nil {
			warnings = append(warnings, fmt.Sprintf("record %d has the token of one before, and counts", n))
		}
		all[sum] = u
	}
}
