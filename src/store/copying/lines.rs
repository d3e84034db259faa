//! A row on its way: a line as PostgreSQL's `COPY` writes it, which is what goes to and comes from there as it is.

/// Adds a cell; a tab stands before all but the first.
pub(in crate::store) fn push(line: &mut Vec<u8>, is_first: bool, cell: Option<&str>) {
    if !is_first {
        line.push(b'\t');
    }
    let Some(cell) = cell else {
        line.extend_from_slice(b"\\N");
        return;
    };
    for byte in cell.bytes() {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            other => line.push(other),
        }
    }
}

/// The cells of a line without its end; `None` where it is none that `COPY` writes.
pub(in crate::store) fn cells(line: &[u8]) -> Option<Vec<Option<String>>> {
    line.split(|byte| *byte == b'\t').map(cell).collect()
}

fn cell(written: &[u8]) -> Option<Option<String>> {
    if written == b"\\N" {
        return Some(None);
    }
    let mut read = Vec::with_capacity(written.len());
    let mut bytes = written.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'\\' {
            read.push(*byte);
            continue;
        }
        read.push(match bytes.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'\\' => b'\\',
            _ => return None,
        });
    }
    String::from_utf8(read).ok().map(Some)
}

/// A list of texts as PostgreSQL writes an array.
pub(in crate::store) fn array(names: &[String]) -> String {
    let quoted = |name: &String| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", names.iter().map(quoted).collect::<Vec<_>>().join(","))
}

/// The texts of an array; `None` where it is none of texts alone.
pub(in crate::store) fn names(array: &str) -> Option<Vec<String>> {
    let inner = array.strip_prefix('{')?.strip_suffix('}')?;
    let mut names = Vec::new();
    if inner.is_empty() {
        return Some(names);
    }
    let (mut name, mut is_quoted) = (String::new(), false);
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(std::mem::take(&mut name)),
            other => name.push(other),
        }
    }
    names.push(name);
    (!is_quoted).then_some(names)
}

/// The bytes that are written as two digits each; `None` where they are not.
pub(in crate::store) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_went() {
        let rows: [&[Option<&str>]; 4] = [
            &[None, Some(""), Some("\\N")],
            &[Some("a\tb\nc\rd\\"), Some("\u{8}\u{b}\u{c}\u{1a}")],
            &[Some("ü€😀"), None],
            &[Some("\\\\t")],
        ];
        for row in rows {
            let mut line = Vec::new();
            for (index, cell) in row.iter().enumerate() {
                push(&mut line, index == 0, *cell);
            }
            assert!(!line.contains(&b'\n'), "{row:?}");
            let read = cells(&line).unwrap();
            assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), row);
        }
        assert_eq!(cells(b"a\\x"), None);
        assert_eq!(cells(b"a\\"), None);
    }

    #[test]
    fn bytes_are_read_as_they_are_written() {
        assert_eq!(unhex("00ffA1"), Some(vec![0, 255, 161]));
        assert_eq!((unhex("0"), unhex("0g"), unhex("")), (None, None, Some(vec![])));
    }

    #[test]
    fn lists_come_back_as_they_went_and_as_postgres_writes_them() {
        for list in [vec![], vec!["a"], vec!["", "NULL", "a,b", "\"", "\\", "{}", " "]] {
            let list: Vec<String> = list.into_iter().map(str::to_owned).collect();
            assert_eq!(names(&array(&list)), Some(list));
        }
        assert_eq!(names("{a,b c}"), Some(vec!["a".to_owned(), "b c".to_owned()]));
        assert_eq!(names("a"), None);
        assert_eq!(names("{\"a}"), None);
    }
}
