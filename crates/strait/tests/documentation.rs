//! docs/command.md is true.

use strait_store::TABLE;

const COMMAND: &str = include_str!("../../../docs/command.md");

#[test]
fn the_documented_exit_codes_are_those_of_the_table_of_errors() {
    let rows = COMMAND.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, code, kind, _, retry, _] = cells[..] else { return None };
        Some((code.parse::<u8>().ok()?, kind.trim_matches('`').to_owned(), retry == "yes"))
    });
    let documented: Vec<_> = rows.filter(|(code, ..)| (10..128).contains(code)).collect();
    let true_ones: Vec<_> = TABLE.iter().map(|row| (row.exit, row.name.to_owned(), row.retry_safe)).collect();
    assert_eq!(documented, true_ones);
}
