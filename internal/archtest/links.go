package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const linkReason = "a reader who follows a link of the manual finds what it promises"

// CheckLinks returns a violation for every link in a Markdown file below root
// that points to a file which is not there. Links to elsewhere are not looked
// at, and code is no link.
func CheckLinks(root string) ([]Violation, error) {
	link := regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)
	code := regexp.MustCompile("(?ms)^```.*?^```")
	var found []Violation
	err := walk(root, func(name, rel string) error {
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			target := filepath.Join(filepath.Dir(name), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil && !strings.Contains(m[1], ":") {
				found = append(found, Violation{File: rel, What: "link to " + m[1], Reason: linkReason})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for links in %s: %w", root, err)
	}
	return found, nil
}
