package archtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

const lockReason = "a lock file names packages by hash, not by the registry of the machine that wrote it: " +
	"set omit-lockfile-registry-resolved=true in the .npmrc beside it"

// CheckLockFiles returns a violation for every package-lock.json below root
// that says where its packages were fetched from. Such an address is that of
// one machine's registry or mirror; the integrity hash already says which
// package is meant.
func CheckLockFiles(root string) ([]Violation, error) {
	var found []Violation
	err := walk(root, func(name, rel string) error {
		base := filepath.Base(name)
		if base != "package-lock.json" && base != "npm-shrinkwrap.json" {
			return nil
		}
		v, err := checkLockFile(name, rel)
		found = append(found, v...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for lock files in %s: %w", root, err)
	}
	return found, nil
}

func checkLockFile(name, rel string) ([]Violation, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(`"resolved"`)) && bytes.Contains(line, []byte("://")) {
			return []Violation{{File: rel, What: string(bytes.TrimSpace(line)), Reason: lockReason}}, nil
		}
	}
	return nil, nil
}
