// Package dynamixel speaks ROBOTIS Dynamixel protocol 2.0, with which the gripper's XM430 servo is driven.
//
//	packet := FF FF FD 00 | id u8 | length u16 | instruction u8 | parameters | crc u16        little endian
//	length counts instruction, parameters and crc; a status packet has instruction 55 and an error byte before its parameters
//	stuffing: after FF FF FD inside instruction and parameters one more FD is inserted and counted in length
//	crc: polynomial 8005, start 0, not reflected, over everything before it, stuffing included
//
// The bus is half duplex: one instruction, then the answers of the servos it names. A Bus sends and waits; Split and Append are the codec
// alone.
//
// Source: ROBOTIS e-manual, "Protocol 2.0" and "XM430-W350 control table".
package dynamixel
