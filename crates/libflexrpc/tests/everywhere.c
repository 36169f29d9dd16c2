/* Runs the manual's sample of a multicast: `everywhere HOST:PORT…` of three, of which the last one is down. */
#include "calc.h"
#include <stdio.h>

int add_everywhere(numbers *both, frpc_handle *const *callees, size_t count);

int main(int count, char **arguments)
{
	frpc_handle *callees[3];
	numbers both = { 2, 3 };
	if (count != 4)
		return 1;
	for (int i = 0; i < 3; i++)
		if (!(callees[i] = frpc_createhandle(arguments[1 + i], CALC_PROGRAM, CALC_V1, "tcp")))
			return 2;
	int done = add_everywhere(&both, callees, 3);
	for (int i = 0; i < 3; i++)
		frpc_destroyhandle(callees[i]);
	return done == 2 ? 0 : 3;
}
