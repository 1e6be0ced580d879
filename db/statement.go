package db

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// statements are the files of db/sql by their names without .sql.
var statements = readStatements()

func readStatements() map[string]string {
	entries, err := fs.ReadDir(files, "sql")
	if err != nil {
		panic(fmt.Sprintf("db: read the embedded statements: %v", err))
	}
	texts := make(map[string]string, len(entries))
	for _, entry := range entries {
		text, err := fs.ReadFile(files, "sql/"+entry.Name())
		if err != nil {
			panic(fmt.Sprintf("db: read the embedded statements: %v", err))
		}
		texts[strings.TrimSuffix(entry.Name(), ".sql")] = string(text)
	}
	return texts
}

// statement gives the text of one file. A name without a file is a mistake of
// the program.
func statement(name string) string {
	text, ok := statements[name]
	if !ok {
		panic("db: no statement " + name)
	}
	return text
}
